//! Tests that [`Client::shared`] returns the same client for equal options, and a new client for
//! different options.

use std::time::Duration;

use crate::config::acl::Acl;
use crate::config::tls::Tls;
use crate::{Client, ClientOptions};

type Change = fn(ClientOptions) -> ClientOptions;

/// Self-signed certificates of two different authorities.
const ONE_AUTHORITY: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBGjCBwqADAgECAgEBMAoGCCqGSM49BAMCMAwxCjAIBgNVBAMMAWEwIBcNMjUw\n\
MTAxMDAwMDAwWhgPMjEyNTAxMDEwMDAwMDBaMAwxCjAIBgNVBAMMAWEwWTATBgcq\n\
hkjOPQIBBggqhkjOPQMBBwNCAATu96CzFT+buHvpal6tga6wvb5+WqLsy+FodyQJ\n\
5VGMK3tQEeFTVWsI0rWjWS/tgMTnoQBvH6k/04OnOF1KVEKRoxMwETAPBgNVHRMB\n\
Af8EBTADAQH/MAoGCCqGSM49BAMCA0cAMEQCIADCg5TdFt1rqDD/DvdqoFISzIRu\n\
mn2nGTfWNwrD8TYXAiB+TWwW2BIPUFNo6I2C3jAWiNYdgf32AmhzgyvlzSWz/Q==\n\
-----END CERTIFICATE-----\n";

const OTHER_AUTHORITY: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBGzCBwqADAgECAgEBMAoGCCqGSM49BAMCMAwxCjAIBgNVBAMMAWIwIBcNMjUw\n\
MTAxMDAwMDAwWhgPMjEyNTAxMDEwMDAwMDBaMAwxCjAIBgNVBAMMAWIwWTATBgcq\n\
hkjOPQIBBggqhkjOPQMBBwNCAARnr3RI5jLKx05/q7FYUmKgQpZRkhnIzy+OKbxg\n\
GrM8qGJDU1e37bAoQmSVQuCSdFfRIyf9cmeJC5n/XwMvZOmNoxMwETAPBgNVHRMB\n\
Af8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIQC46DPamPWqhsxAakZKB1cKrNXj\n\
P6aPTBOtD+HLrV1vrQIgWgBUwAIhYm/w3pAQbHht42P0KDcinFSXhqxEP58ZuMg=\n\
-----END CERTIFICATE-----\n";

/// Returns each option with two different values.
fn changes() -> Vec<(&'static str, Change, Change)> {
    let mut all: Vec<(_, Change, Change)> = vec![
        (
            "session_timeout",
            |options| options.session_timeout(Duration::from_secs(7)).unwrap(),
            |options| options.session_timeout(Duration::from_secs(8)).unwrap(),
        ),
        (
            "connect_timeout",
            |options| options.connect_timeout(Duration::from_secs(7)).unwrap(),
            |options| options.connect_timeout(Duration::from_secs(8)).unwrap(),
        ),
        (
            "max_frame",
            |options| options.max_frame(1 << 20).unwrap(),
            |options| options.max_frame(2 << 20).unwrap(),
        ),
        (
            "auth",
            |options| options.auth("digest", "a:a").unwrap(),
            |options| options.auth("digest", "a:b").unwrap(),
        ),
        (
            "the scheme of auth",
            |options| options.auth("digest", "a:a").unwrap(),
            |options| options.auth("other", "a:a").unwrap(),
        ),
        (
            "one more auth",
            |options| options.auth("digest", "a:a").unwrap(),
            |options| options.auth("digest", "a:a").unwrap().auth("digest", "b:b").unwrap(),
        ),
        ("sasl", |options| options.sasl("a", "a").unwrap(), |options| options.sasl("a", "b").unwrap()),
        (
            "the user of sasl",
            |options| options.sasl("a", "a").unwrap(),
            |options| options.sasl("b", "a").unwrap(),
        ),
        ("acl", |options| options.acl(Acl::Creator), |options| options.acl(rules("world:anyone:r"))),
        (
            "the permissions of acl",
            |options| options.acl(rules("world:anyone:cdrwa")),
            |options| options.acl(rules("world:anyone:cdrw")),
        ),
        ("parent_acl", |options| options.parent_acl(Acl::Open), |options| options.parent_acl(Acl::Creator)),
        ("label", |options| label(options, "a"), |options| label(options, "b")),
        ("identify", |options| options.identify(false), |options| options.identify(true)),
    ];
    if cfg!(feature = "tls") {
        all.push((
            "tls",
            |options| options.tls(Tls::new(ONE_AUTHORITY).unwrap()),
            |options| options.tls(Tls::new(OTHER_AUTHORITY).unwrap()),
        ));
    }
    all
}

fn rules(text: &str) -> Acl {
    Acl::parse(text).unwrap()
}

fn label(options: ClientOptions, text: &str) -> ClientOptions {
    options.label(Some(text.to_owned())).unwrap()
}

fn options(hosts: &str) -> ClientOptions {
    ClientOptions::new(Some(hosts)).unwrap()
}

#[test]
fn a_client_is_shared_by_those_with_the_same_options_all_of_them() {
    let hosts = "zk1:1,zk2:2/app";
    let default = Client::shared(&options(hosts));
    for (name, one, other) in changes() {
        let shared = Client::shared(&one(options(hosts)));
        assert!(shared.is_same(&Client::shared(&one(options(hosts)))), "{name}: the same");
        assert!(!shared.is_same(&Client::shared(&other(options(hosts)))), "{name}: another value");
        assert!(!shared.is_same(&default), "{name}: not given");
        for elsewhere in ["zk1:1,zk2:2/other", "zk1:1,zk2:2", "zk1:1/app", "zk1:1,zk2:3/app", "[::1]:1/app"] {
            assert!(!shared.is_same(&Client::shared(&one(options(elsewhere)))), "{name}: {elsewhere}");
        }
    }
    assert!(default.is_same(&Client::shared(&options("zk1:1, zk2:2/app"))), "a space between servers");
    let port = Client::shared(&options("[::1]:2181"));
    assert!(port.is_same(&Client::shared(&options("[::1]"))), "a port that goes without saying");
}
