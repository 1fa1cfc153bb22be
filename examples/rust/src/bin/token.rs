//! A resource that refuses writes of an earlier holder, by its fencing token: `token [HOSTS]`.

use zklock::{Client, Mutex};

/// A table that remembers the largest token of its writers.
#[derive(Default)]
struct Table {
    token: i64,
    rows: Vec<String>,
}

impl Table {
    fn insert(&mut self, token: i64, row: &str) -> Result<(), String> {
        if token < self.token {
            return Err(format!("{row:?} comes too late: token {token} is older than {}", self.token));
        }
        self.token = token;
        self.rows.push(row.into());
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hosts = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".into());
    let client = Client::connect(&hosts).await?;
    let lock = Mutex::new(&client, "/examples/token")?;
    let mut table = Table::default();

    let slow = lock.acquire().await?.fencing_token();
    // Meanwhile the first holder was paused for so long that it lost the lock. It does not know
    // that yet.
    let lease = lock.acquire().await?;
    table.insert(lease.fencing_token(), "of the second holder")?;
    println!("{}", table.insert(slow, "of the first holder").expect_err("a refusal"));
    assert_eq!(table.rows, ["of the second holder"]);

    lease.release().await?;
    client.close().await?;
    Ok(())
}
