//! The data in the nodes of our own contenders.

use serde_json::{Value, json};

use crate::config::ClientOptions;
use crate::lease::owner::Owner;
use crate::queue::contender::ContenderInfo;
use crate::runtime::clock;
use crate::runtime::fork::PerProcess;
use crate::system::host_name;

/// Description of this process, for the data of its nodes. A forked child process creates a new
/// description.
static HERE: PerProcess<Process> = PerProcess::new();

/// The parts of the data that are the same for all nodes of a process, as JSON.
struct Process {
    /// The beginning of the data, with the host name.
    host: Box<[u8]>,
    /// Time when the process first acquired a lock, in microseconds since 1970. It distinguishes
    /// processes in different containers that have the same host name and pid.
    number: Box<[u8]>,
    pid: Box<[u8]>,
}

impl Process {
    fn new() -> Self {
        let bytes = |text: String| text.into_bytes().into_boxed_slice();
        Self {
            host: bytes(format!(r#"{{"host":{}"#, Value::from(host_name()))),
            number: bytes(format!(r#","process":{}"#, clock::since_1970().as_micros())),
            pid: bytes(format!(r#","pid":{}"#, std::process::id())),
        }
    }
}

/// The holders that a node is created for.
#[derive(Clone, Copy)]
pub(crate) enum NodeHolders<'a> {
    One(&'a Owner),
    /// Several consecutive holders. The data contains no owner, because one node serves all of them
    /// and its data is not updated.
    Several {
        /// Maximum number of consecutive holds on the node, or zero if the option `cohort` is not
        /// set.
        cohort: u16,
        /// Time in milliseconds for which the node can be kept, or zero if the option `linger` is
        /// not set.
        linger: u32,
    },
}

/// Maximum length of an owner's name in the data, in bytes.
const NAME_LENGTH: usize = 64;

/// Initial capacity for the data of a node. Most data fits.
const LENGTH: usize = 256;

/// Returns the part of an owner's name that is written to the data.
fn beginning(name: &str) -> &str {
    let end = (0..=NAME_LENGTH.min(name.len())).rev().find(|end| name.is_char_boundary(*end));
    &name[..end.unwrap_or_default()]
}

impl ContenderInfo {
    /// Returns the default id of a candidate. It is `host:pid`, which is the convention of Curator
    /// users.
    pub(crate) fn candidate_id(options: &ClientOptions) -> String {
        if options.identify { format!("{}:{}", host_name(), std::process::id()) } else { String::new() }
    }

    /// Returns the data for a new node of this client. It is for operators and for other zklock
    /// contenders.
    ///
    /// The number of permits is included even if the client does not identify itself, because all
    /// contenders must agree on this number.
    pub(crate) fn node_data(
        options: &ClientOptions,
        label: Option<&str>,
        permits: Option<u32>,
        holders: NodeHolders<'_>,
    ) -> Vec<u8> {
        if !options.identify {
            return permits
                .map(|permits| json!({ "permits": permits }).to_string())
                .unwrap_or_default()
                .into();
        }
        let Process { host, number, pid } = HERE.get_or_init(Process::new);
        // Write the data piece by piece into one buffer, to save time in every acquire. The
        // buffer's initial size is usually sufficient.
        let mut data = Vec::with_capacity(LENGTH);
        let written = (|| {
            data.extend_from_slice(host);
            data.extend_from_slice(br#","label":"#);
            serde_json::to_writer(&mut data, &label.or(options.label.as_deref()))?;
            data.extend_from_slice(br#","language":"#);
            serde_json::to_writer(&mut data, options.language)?;
            match holders {
                NodeHolders::One(owner) => {
                    data.extend_from_slice(br#","owner":{"number":"#);
                    serde_json::to_writer(&mut data, &owner.number())?;
                    data.extend_from_slice(br#","name":"#);
                    serde_json::to_writer(&mut data, &owner.name().map(beginning))?;
                    data.extend_from_slice(number);
                    data.push(b'}');
                }
                NodeHolders::Several { cohort, linger } => {
                    if cohort > 0 {
                        data.extend_from_slice(br#","cohort":"#);
                        serde_json::to_writer(&mut data, &cohort)?;
                    }
                    if linger > 0 {
                        data.extend_from_slice(br#","linger":"#);
                        serde_json::to_writer(&mut data, &linger)?;
                    }
                }
            }
            if let Some(permits) = permits {
                data.extend_from_slice(br#","permits":"#);
                serde_json::to_writer(&mut data, &permits)?;
            }
            data.extend_from_slice(pid);
            data.extend_from_slice(br#","since":"#);
            serde_json::to_writer(&mut data, &clock::since_1970().as_millis())?;
            data.push(b'}');
            serde_json::Result::Ok(())
        })();
        debug_assert!(written.is_ok(), "memory is written");
        data
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::queue::contender::stated_permits;

    fn parse(data: &[u8]) -> Option<ContenderInfo> {
        ContenderInfo::parse(&serde_json::from_slice(data).ok()?)
    }

    #[test]
    fn a_client_that_does_not_identify_itself_states_only_its_permits() {
        let options =
            ClientOptions::new(Some("a")).unwrap().label(Some("client".into())).unwrap().identify(false);
        assert_eq!(
            ContenderInfo::node_data(&options, Some("lock"), None, NodeHolders::One(&Owner::new())),
            b""
        );
        assert_eq!(
            ContenderInfo::node_data(&options, Some("lock"), Some(3), NodeHolders::One(&Owner::new())),
            br#"{"permits":3}"#
        );
        let data = serde_json::from_slice(br#"{"permits":3}"#).unwrap();
        assert_eq!((ContenderInfo::parse(&data), stated_permits(&data)), (None, Some(3)));
    }

    #[test]
    fn what_ours_write_is_understood() {
        let options = ClientOptions::new(Some("a")).unwrap().label(Some("client".into())).unwrap();
        let about = parse(&ContenderInfo::node_data(
            &options,
            Some("lock"),
            Some(3),
            NodeHolders::One(&Owner::new()),
        ))
        .unwrap();
        assert_eq!((about.host, about.pid), (host_name(), std::process::id()));
        assert_eq!(
            (about.language.as_str(), about.label.as_deref(), about.permits),
            ("rust", Some("lock"), Some(3))
        );
        let about =
            parse(&ContenderInfo::node_data(&options, None, None, NodeHolders::One(&Owner::new()))).unwrap();
        assert_eq!((about.label.as_deref(), about.permits), (Some("client"), None));
        // The label contains characters that must be escaped, because they could end the string or
        // the line.
        let about = parse(&ContenderInfo::node_data(
            &options,
            Some("a \"b\"\\\n\u{1f512}"),
            None,
            NodeHolders::One(&Owner::new()),
        ))
        .unwrap();
        assert_eq!(about.label.as_deref(), Some("a \"b\"\\\n\u{1f512}"));
        let nobody = ClientOptions::new(Some("a")).unwrap();
        assert_eq!(
            parse(&ContenderInfo::node_data(&nobody, None, None, NodeHolders::One(&Owner::new())))
                .unwrap()
                .label,
            None
        );
    }

    #[test]
    fn a_node_that_several_hold_through_tells_of_no_owner_but_of_the_options() {
        let options = ClientOptions::new(Some("a")).unwrap();
        for (cohort, linger) in [(64, 0), (0, 1500), (u16::MAX, u32::MAX)] {
            let data =
                ContenderInfo::node_data(&options, None, None, NodeHolders::Several { cohort, linger });
            let about = parse(&data).unwrap();
            assert_eq!((about.pid, about.owner), (std::process::id(), None));
            assert_eq!(about.cohort, (cohort > 0).then_some(cohort.into()));
            assert_eq!(about.linger, (linger > 0).then(|| Duration::from_millis(linger.into())));
            let silent = options.clone().identify(false);
            let several = NodeHolders::Several { cohort, linger };
            assert_eq!(ContenderInfo::node_data(&silent, None, None, several), b"");
        }
    }

    #[test]
    fn the_data_of_a_node_with_one_holder_has_the_same_keys_as_ever() {
        let options = ClientOptions::new(Some("a")).unwrap();
        let owner = Owner::new();
        let data = ContenderInfo::node_data(&options, None, None, NodeHolders::One(&owner));
        let text = String::from_utf8(data).unwrap();
        let said: serde_json::Value = serde_json::from_str(&text).unwrap();
        let (host, process) = (&said["host"], &said["owner"]["process"]);
        let (number, pid, since) = (owner.number(), std::process::id(), &said["since"]);
        let owner = format!(r#"{{"number":{number},"name":null,"process":{process}}}"#);
        let told = format!(
            r#"{{"host":{host},"label":null,"language":"rust","owner":{owner},"pid":{pid},"since":{since}}}"#
        );
        assert_eq!(text, told);
    }

    #[test]
    fn an_owner_is_told_with_its_number_and_the_beginning_of_its_name() {
        let options = ClientOptions::new(Some("a")).unwrap();
        let told = |owner: &Owner| {
            let about =
                parse(&ContenderInfo::node_data(&options, None, None, NodeHolders::One(owner))).unwrap();
            about.owner.unwrap()
        };
        let (unnamed, named) = (Owner::new(), Owner::named("a \"b\"\n"));
        assert_eq!((told(&unnamed).number, told(&unnamed).name), (unnamed.number(), None));
        assert_eq!((told(&named).number, told(&named).name.as_deref()), (named.number(), named.name()));
        assert_eq!(told(&named).process, told(&unnamed).process);
        // The name consists of one byte and then of characters of two bytes each. The limit falls
        // inside a character, so the shortened name ends before that character.
        let long = Owner::named(format!("x{}", "é".repeat(50)));
        assert_eq!(told(&long).name, Some(format!("x{}", "é".repeat(31))));
    }
}
