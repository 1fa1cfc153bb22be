//! The permissions of a file on Unix: its mode and its owner.

use std::fs::File;
use std::io::Result;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::Exposure;

/// Returns how others than the owner can use the file, or `None` if they cannot.
pub(super) fn exposure(opened: &File, file: &Path) -> Result<Option<Exposure>> {
    let about = opened.metadata()?;
    Ok(too_open(about.mode(), about.uid()).map(|mode| Exposure {
        how: format!("mode {mode:04o}"),
        remedy: format!("chmod 600 {}", file.display()),
    }))
}

/// Returns the file's permissions if they are too wide for a secret, otherwise `None`.
///
/// The group can have read permission for a file that belongs to root, because containers that do
/// not run as root receive their secrets in such files.
fn too_open(mode: u32, owner: u32) -> Option<u32> {
    let too_many = if owner == 0 { 0o037 } else { 0o077 };
    (mode & too_many != 0).then_some(mode & 0o7777)
}

/// Writes a file with these permissions.
#[cfg(test)]
fn write(file: &Path, text: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt;

    std::fs::write(file, text).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[cfg(test)]
pub(in crate::config) fn write_private(file: &Path, text: &str) {
    write(file, text, 0o600);
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    #[test]
    fn a_secret_is_for_its_owner_alone() {
        let (root, user) = (0, 1000);
        for mode in [0o600, 0o400, 0o100_600] {
            assert_eq!(too_open(mode, user), None, "{mode:o}");
        }
        for mode in [0o644, 0o640, 0o604, 0o660, 0o601] {
            assert_eq!(too_open(0o100_000 | mode, user), Some(mode), "{mode:o}");
        }
        // Kubernetes mounts secrets with these permissions: they belong to root, and the pod's
        // group can read them.
        assert_eq!(too_open(0o440, root), None);
        for mode in [0o444, 0o660, 0o644] {
            assert_eq!(too_open(mode, root), Some(mode), "{mode:o}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let file = std::env::temp_dir().join(format!("zklock-open-{}", std::process::id()));
        write(&file, "digest:a:b", 0o644);
        let refused = read(&file).unwrap_err();
        std::fs::remove_file(&file).unwrap();
        assert_eq!((refused.code(), refused.argument()), ("BAD_ARGUMENT", Some("auth_file")));
        assert!(refused.to_string().contains("(mode 0644): run `chmod 600"), "{refused}");
    }
}
