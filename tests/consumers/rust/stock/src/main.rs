//! Connects and acquires a lock twice on the stock transport, which cannot use TLS. Prints the log
//! to standard output.

use zklock::{Client, ClientOptions, ErrorKind, Mutex, Tls, Transport};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_ansi(false).init();
    let hosts = std::env::args().nth(1).expect("hosts");
    for _ in 0..2 {
        let client = Client::connect(&hosts).await?;
        Mutex::new(&client, "/consumers/stock")?.acquire().await?.release().await?;
        assert_eq!(client.stats().transport, Some(Transport::Stock));
        client.close().await?;
    }
    // rustls has two cryptography providers in this program, and no default provider. A library
    // that uses the default provider would panic.
    assert!(rustls::crypto::CryptoProvider::get_default().is_none());
    let ca = std::env::args().nth(2).expect("a file with a certificate");
    let tls = Tls::new(&std::fs::read_to_string(ca)?)?;
    let refused = Client::connect_with(ClientOptions::new(Some(&hosts))?.tls(tls)).await.expect_err("no TLS here");
    assert_eq!(refused.kind(), ErrorKind::BadArgument, "{refused}");
    println!("done: {refused}");
    Ok(())
}
