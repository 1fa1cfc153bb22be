//! What replies have to look like.

use super::jute::Reader;
use super::malformed::Malformed;
use super::multi;
use super::parts::{data, names, path, skip_stat};
use super::request::Kind;

/// Checks the body of a successful reply.
pub(super) fn check(kind: &Kind, body: &[u8], most_names: usize) -> Result<(), Malformed> {
    let mut reader = Reader::new(body);
    match kind {
        Kind::Create { stat } => {
            path(&mut reader)?;
            if *stat {
                skip_stat(&mut reader)?;
            }
        }
        Kind::Done | Kind::Auth => {}
        Kind::AddWatch => {
            // Servers that have this request answer it with an error code of 0 as the body.
            if !reader.is_at_the_end() {
                reader.int()?;
            }
        }
        Kind::Stat => skip_stat(&mut reader)?,
        Kind::Data => data(&mut reader)?,
        Kind::Acl => {
            for _ in 0..reader.count(12)? {
                if reader.int()? & !0x1f != 0 {
                    return Err(Malformed::new("permissions that do not exist"));
                }
                reader.text()?;
                reader.text()?;
            }
            skip_stat(&mut reader)?;
        }
        Kind::Names { stat, paths } => {
            names(&mut reader, *paths, most_names)?;
            if *stat {
                skip_stat(&mut reader)?;
            }
        }
        Kind::Sync => {
            reader.text()?;
        }
        Kind::Number => {
            if reader.int()? < 0 {
                return Err(Malformed::new("a negative number of nodes"));
            }
        }
        Kind::Users => {
            for _ in 0..reader.count(8)? {
                reader.text()?;
                reader.text()?;
            }
        }
        Kind::Multi(operations) => multi::check(operations, &mut reader)?,
        Kind::MultiRead(operations) => multi::check_read(operations, &mut reader, most_names)?,
        // Read elsewhere, or by nobody.
        Kind::Sasl | Kind::Other => return Ok(()),
    }
    reader.end()
}
