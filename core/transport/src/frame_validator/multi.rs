//! Validation of the results of transactions.

use super::malformed::Malformed;
use super::parts::{data, names, path, skip_stat};
use super::request::Op;
use zklock_jute::Reader;

const ERROR: i32 = -1;
const CREATE: i32 = 1;
const CREATE2: i32 = 15;

/// Validates the results of a transaction that writes. If the transaction succeeded, each result
/// must match its operation. If it failed, every result must be an error.
pub(super) fn check(operations: &[Op], reader: &mut Reader<'_>) -> Result<(), Malformed> {
    let (mut done, mut refused) = (0, false);
    for operation in operations {
        match (next(reader)?, operation) {
            (ERROR, _) => {
                refused |= reader.int()? != 0;
                continue;
            }
            (13, Op::Check) | (2, Op::Delete) => {}
            // Servers before 3.7.2 and 3.8.2 send no Stat (ZOOKEEPER-4026).
            (CREATE, Op::Create) => drop(path(reader)?),
            (CREATE2, Op::Create) => {
                path(reader)?;
                skip_stat(reader)?;
            }
            (5, Op::SetData) => skip_stat(reader)?,
            _ => return Err(wrong()),
        }
        done += 1;
    }
    if done != operations.len() && (done != 0 || !refused) {
        return Err(Malformed::new("a transaction that was executed in part"));
    }
    end(reader)
}

/// Validates the results of reads that were sent as one request. Each result is the requested data
/// or a separate error.
pub(super) fn check_read(
    operations: &[Op],
    reader: &mut Reader<'_>,
    most_names: usize,
) -> Result<(), Malformed> {
    for operation in operations {
        match (next(reader)?, operation) {
            (ERROR, _) => drop(reader.int()?),
            (4, Op::GetData) => data(reader)?,
            (8, Op::GetChildren) => names(reader, false, most_names)?,
            _ => return Err(wrong()),
        }
    }
    end(reader)
}

/// Reads the kind of the next result.
fn next(reader: &mut Reader<'_>) -> Result<i32, Malformed> {
    let (kind, end, _) = (reader.int()?, reader.boolean()?, reader.int()?);
    if end { Err(Malformed::new("fewer results than operations")) } else { Ok(kind) }
}

fn end(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    let (_, end, _) = (reader.int()?, reader.boolean()?, reader.int()?);
    if end { Ok(()) } else { Err(Malformed::new("more results than operations")) }
}

fn wrong() -> Malformed {
    Malformed::new("a result that does not belong to its operation")
}
