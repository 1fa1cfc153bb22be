//! What the nodes of our own contenders say.

use serde_json::json;

use crate::clock;
use crate::contender::{About, host_name};
use crate::options::ClientOptions;

impl About {
    /// The id of a candidate that did not choose one: as Curator's programs do by hand, where to find it.
    pub(crate) fn candidate_id(options: &ClientOptions) -> String {
        if options.identify { format!("{}:{}", host_name(), std::process::id()) } else { String::new() }
    }

    /// The data of a node of ours that is being created: operators see it, and other zklock contenders read it. The
    /// number of permits is always stated, because all contenders must agree on it.
    pub(crate) fn node_data(options: &ClientOptions, label: Option<&str>, permits: Option<u32>) -> Vec<u8> {
        if !options.identify {
            return permits
                .map(|permits| json!({ "permits": permits }).to_string())
                .unwrap_or_default()
                .into();
        }
        let mut data = json!({
            "host": host_name(),
            "pid": std::process::id(),
            "language": options.language,
            "label": label.or(options.label.as_deref()),
            "since": u64::try_from(clock::since_1970().as_millis()).unwrap_or(u64::MAX),
        });
        if let Some(permits) = permits {
            data["permits"] = permits.into();
        }
        data.to_string().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::stated_permits;

    fn parse(data: &[u8]) -> Option<About> {
        About::parse(&serde_json::from_slice(data).ok()?)
    }

    #[test]
    fn a_client_that_does_not_identify_itself_states_only_its_permits() {
        let options =
            ClientOptions::new(Some("a")).unwrap().label(Some("client".into())).unwrap().identify(false);
        assert_eq!(About::node_data(&options, Some("lock"), None), b"");
        assert_eq!(About::node_data(&options, Some("lock"), Some(3)), br#"{"permits":3}"#);
        let data = serde_json::from_slice(br#"{"permits":3}"#).unwrap();
        assert_eq!((About::parse(&data), stated_permits(&data)), (None, Some(3)));
    }

    #[test]
    fn what_ours_write_is_understood() {
        let options = ClientOptions::new(Some("a")).unwrap().label(Some("client".into())).unwrap();
        let about = parse(&About::node_data(&options, Some("lock"), Some(3))).unwrap();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!((about.host.as_str(), about.pid), (host.trim(), std::process::id()));
        assert_eq!(
            (about.language.as_str(), about.label.as_deref(), about.permits),
            ("rust", Some("lock"), Some(3))
        );
        let about = parse(&About::node_data(&options, None, None)).unwrap();
        assert_eq!((about.label.as_deref(), about.permits), (Some("client"), None));
    }
}
