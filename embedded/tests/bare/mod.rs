//! A minimal client with one connection. A test receives each message separately.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The `xid` of a watch event.
pub(crate) const EVENT: i32 = -1;
/// The `xid` of a ping.
pub(crate) const PING: i32 = -2;
/// The `xid` of every request that is not a ping.
pub(crate) const REPLY: i32 = 1;

const LONG: Duration = Duration::from_secs(60);

/// A session and its connection.
pub(crate) struct Session {
    pub(crate) id: i64,
    password: Vec<u8>,
    stream: TcpStream,
}

impl Session {
    pub(crate) async fn open(hosts: &str) -> Self {
        Self::with_timeout(hosts, LONG).await
    }

    pub(crate) async fn with_timeout(hosts: &str, timeout: Duration) -> Self {
        let mut stream = TcpStream::connect(hosts).await.unwrap();
        greet(&mut stream, timeout).await;
        let (id, password) = greeting(&mut stream).await;
        Self { id, password, stream }
    }

    /// Resumes the session on a new connection.
    pub(crate) async fn reopen(&self, hosts: &str) -> Self {
        let mut stream = TcpStream::connect(hosts).await.unwrap();
        send(&mut stream, &hello(LONG, self.id, &self.password)).await;
        let (id, password) = greeting(&mut stream).await;
        Self { id, password, stream }
    }

    pub(crate) async fn ping(&mut self) {
        send(&mut self.stream, &[PING, 11].map(i32::to_be_bytes).concat()).await;
    }

    /// Returns the `xid` of the next message, or `None` when the connection is closed.
    pub(crate) async fn hear(&mut self) -> Option<i32> {
        let message = frame(&mut self.stream).await?;
        Some(i32::from_be_bytes(message[..4].try_into().unwrap()))
    }

    pub(crate) async fn create_ephemeral(&mut self, path: &str) {
        self.begin_create(path).await;
        self.succeed().await;
    }

    /// Sends a create request without waiting for the reply.
    pub(crate) async fn begin_create(&mut self, path: &str) {
        let acl = [&1_i32.to_be_bytes()[..], &31_i32.to_be_bytes(), &text("world"), &text("anyone")].concat();
        self.begin(1, &[text(path), text(""), acl, 1_i32.to_be_bytes().to_vec()].concat()).await;
    }

    /// Sets a watch on an existing node.
    pub(crate) async fn watch(&mut self, path: &str) {
        self.begin(3, &[text(path), vec![1]].concat()).await;
        self.succeed().await;
    }

    async fn begin(&mut self, op: i32, request: &[u8]) {
        send(&mut self.stream, &[&[REPLY, op].map(i32::to_be_bytes).concat(), request].concat()).await;
    }

    async fn succeed(&mut self) {
        let reply = frame(&mut self.stream).await.unwrap();
        assert_eq!(reply[12..16], [0; 4], "the server refuses it");
    }
}

/// Sends a connect request for a new session.
pub(crate) async fn greet(stream: &mut TcpStream, timeout: Duration) {
    send(stream, &hello(timeout, 0, &[0; 16])).await;
}

/// Returns the session's id and password from the connect reply.
pub(crate) async fn greeting(stream: &mut TcpStream) -> (i64, Vec<u8>) {
    let greeting = frame(stream).await.unwrap();
    (i64::from_be_bytes(greeting[8..16].try_into().unwrap()), greeting[20..36].to_vec())
}

fn hello(timeout: Duration, session: i64, password: &[u8]) -> Vec<u8> {
    let millis = i32::try_from(timeout.as_millis()).unwrap();
    [&[0; 12][..], &millis.to_be_bytes(), &session.to_be_bytes(), &16_i32.to_be_bytes(), password].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&i32::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat()
}

async fn send(stream: &mut TcpStream, message: &[u8]) {
    let length = i32::try_from(message.len()).unwrap().to_be_bytes();
    stream.write_all(&[&length, message].concat()).await.unwrap();
}

/// Returns the next message, or `None` when the connection is closed. The future can be dropped
/// before the message arrives without losing bytes.
async fn frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    // Wait until the length is complete, because a drop between its bytes would lose them.
    loop {
        stream.readable().await.ok()?;
        match stream.peek(&mut length).await {
            Ok(4) => break,
            Ok(0) | Err(_) => return None,
            Ok(_) => tokio::task::yield_now().await,
        }
    }
    stream.read_exact(&mut length).await.ok()?;
    let mut message = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
    stream.read_exact(&mut message).await.ok()?;
    Some(message)
}
