//! The directories that a lock needs, where a server does not know containers.

use super::proxy::{Fate, code, op};
use super::{behind_proxy, client, hold, run};

#[test]
fn where_there_are_no_containers_the_directories_are_persistent() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let client = client(&proxy.hosts).await;
        // A transaction that creates a container is refused as a whole.
        proxy.rule(|request| match request.op {
            op::CREATE_CONTAINER => Fate::Refuse(code::UNIMPLEMENTED),
            op::MULTI if request.bytes[8..12] == op::CREATE_CONTAINER.to_be_bytes() => {
                Fate::Refuse(code::UNIMPLEMENTED)
            }
            _ => Fate::Pass,
        });
        let lease = hold(&client, "/a/b/c").await;
        let asked = |wanted: i32| proxy.requests().iter().filter(|request| request.op == wanted).count();
        assert_eq!(asked(op::CREATE_CONTAINER), 3, "each level was tried as a container");
        lease.release().await.expect("the end of the hold");
        // What is there already is no problem either.
        hold(&client, "/a/b/d").await.release().await.expect("the end of the hold");
        drop(server);
    });
}
