//! Validation of replies.

use super::malformed::Malformed;
use super::multi;
use super::parts::{data, names, path, skip_stat};
use super::request::ReplyShape;
use zklock_jute::Reader;

/// Validates the body of a successful reply.
pub(super) fn check(kind: &ReplyShape, body: &[u8], most_names: usize) -> Result<(), Malformed> {
    let mut reader = Reader::new(body);
    match kind {
        ReplyShape::Create { stat } => {
            path(&mut reader)?;
            if *stat {
                skip_stat(&mut reader)?;
            }
        }
        ReplyShape::Done | ReplyShape::Auth => {}
        ReplyShape::AddWatch => {
            // Servers that know this request send an error code of 0 as the body.
            if !reader.is_empty() {
                reader.int()?;
            }
        }
        ReplyShape::Stat => skip_stat(&mut reader)?,
        ReplyShape::Data => data(&mut reader)?,
        ReplyShape::Acl => {
            for _ in 0..reader.count(12)? {
                if reader.int()? & !0x1f != 0 {
                    return Err(Malformed::new("permissions that do not exist"));
                }
                reader.text()?;
                reader.text()?;
            }
            skip_stat(&mut reader)?;
        }
        ReplyShape::Names { stat, paths } => {
            names(&mut reader, *paths, most_names)?;
            if *stat {
                skip_stat(&mut reader)?;
            }
        }
        ReplyShape::Sync => {
            reader.text()?;
        }
        ReplyShape::Number => {
            if reader.int()? < 0 {
                return Err(Malformed::new("a negative number of nodes"));
            }
        }
        ReplyShape::Users => {
            for _ in 0..reader.count(8)? {
                reader.text()?;
                reader.text()?;
            }
        }
        ReplyShape::Multi(operations) => multi::check(operations, &mut reader)?,
        ReplyShape::MultiRead(operations) => multi::check_read(operations, &mut reader, most_names)?,
        // `Sasl` is validated by the caller, and `Other` is not read.
        ReplyShape::Sasl | ReplyShape::Other => return Ok(()),
    }
    Ok(reader.end()?)
}
