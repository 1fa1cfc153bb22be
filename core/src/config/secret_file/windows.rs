//! The permissions of a file on Windows: its access control list.

use std::ffi::c_void;
use std::fs::File;
use std::io::{Error, Result};
use std::os::windows::io::AsRawHandle;
use std::path::Path;
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::{CloseHandle, ERROR_SUCCESS, HANDLE, LocalFree};
use windows_sys::Win32::Security::Authorization::{ConvertSidToStringSidW, GetSecurityInfo, SE_FILE_OBJECT};
use windows_sys::Win32::Security::{
    ACCESS_ALLOWED_ACE, ACE_HEADER, ACL, DACL_SECURITY_INFORMATION, EqualSid, GetAce, GetTokenInformation,
    INHERIT_ONLY_ACE, IsWellKnownSid, OWNER_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR, PSID, TOKEN_QUERY,
    TOKEN_USER, TokenUser, WinBuiltinAdministratorsSid, WinCreatorOwnerRightsSid, WinLocalSystemSid,
};
use windows_sys::Win32::System::SystemServices::{
    ACCESS_ALLOWED_ACE_TYPE, ACCESS_ALLOWED_CALLBACK_ACE_TYPE, ACCESS_DENIED_ACE_TYPE,
    ACCESS_DENIED_CALLBACK_ACE_TYPE,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

use super::Exposure;

/// The rights that matter for a secret: to read, write or extend the file, to change its list or
/// its owner (`FILE_READ_DATA`, `FILE_WRITE_DATA`, `FILE_APPEND_DATA`, `WRITE_DAC`, `WRITE_OWNER`),
/// and the generic rights that contain them.
const RIGHTS: u32 = 0x1 | 0x2 | 0x4 | 0x4_0000 | 0x8_0000 | 0xF000_0000;

/// The security descriptor of an open file, with pointers into it.
struct Descriptor {
    whole: PSECURITY_DESCRIPTOR,
    owner: PSID,
    list: *mut ACL,
}

impl Descriptor {
    fn of(file: &File) -> Result<Self> {
        let mut this = Self { whole: null_mut(), owner: null_mut(), list: null_mut() };
        let parts = OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION;
        // SAFETY: an open file, and pointers to local variables or null.
        let outcome = unsafe {
            GetSecurityInfo(
                file.as_raw_handle(),
                SE_FILE_OBJECT,
                parts,
                &raw mut this.owner,
                null_mut(),
                &raw mut this.list,
                null_mut(),
                &raw mut this.whole,
            )
        };
        if outcome == ERROR_SUCCESS {
            Ok(this)
        } else {
            Err(Error::from_raw_os_error(outcome.try_into().unwrap_or_default()))
        }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the call that filled this in allocated it. Nothing uses the pointers afterwards.
        unsafe { LocalFree(self.whole) };
    }
}

/// Returns how others than the owner can use the file, or `None` if they cannot. The user of this
/// process, the system and the administrators do not count as others: on Unix, root does not
/// either.
pub(super) fn exposure(opened: &File, file: &Path) -> Result<Option<Exposure>> {
    let descriptor = Descriptor::of(opened)?;
    let user = user()?;
    // The first command deletes entries that name others, and the second one the inherited entries.
    // A name instead of the identifier could belong to another account.
    let (name, sid) = (file.display(), user.text()?);
    let exposed = |how: &str| Exposure {
        how: how.to_owned(),
        remedy: format!(
            "icacls \"{name}\" /reset` and `icacls \"{name}\" /inheritance:r /grant:r \"*{sid}:F\""
        ),
    };
    if descriptor.list.is_null() {
        return Ok(Some(exposed("it has no access control list")));
    }
    // SAFETY: the list is valid as long as the descriptor.
    let count = unsafe { (*descriptor.list).AceCount };
    for index in 0..u32::from(count) {
        let mut entry = null_mut();
        // SAFETY: as above, and the index is below the number of entries.
        if unsafe { GetAce(descriptor.list, index, &raw mut entry) } == 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: an entry of the list. The owner and the user are valid identifiers.
        if unsafe { is_for_others(entry, [descriptor.owner, user.sid()]) } {
            return Ok(Some(exposed("its access control list allows it")));
        }
    }
    Ok(None)
}

/// Returns whether an entry of a list gives others a right that matters. An entry of an unknown
/// kind counts as one that does.
///
/// # Safety
/// The entry and the identifiers are valid.
unsafe fn is_for_others(entry: *const c_void, ours: [PSID; 2]) -> bool {
    // SAFETY: every entry begins with this header.
    let header = unsafe { entry.cast::<ACE_HEADER>().read() };
    let (kind, flags) = (u32::from(header.AceType), u32::from(header.AceFlags));
    if [ACCESS_DENIED_ACE_TYPE, ACCESS_DENIED_CALLBACK_ACE_TYPE].contains(&kind)
        || flags & INHERIT_ONLY_ACE != 0
    {
        return false;
    }
    if ![ACCESS_ALLOWED_ACE_TYPE, ACCESS_ALLOWED_CALLBACK_ACE_TYPE].contains(&kind) {
        return true;
    }
    let entry = entry.cast::<ACCESS_ALLOWED_ACE>();
    // SAFETY: an entry of one of these kinds has a mask, and then an identifier, which begins at
    // this field and is longer than it.
    let (mask, sid) = unsafe { ((*entry).Mask, (&raw const (*entry).SidStart).cast_mut().cast()) };
    // SAFETY: both are valid identifiers.
    let is_ours = ours.iter().any(|our| unsafe { EqualSid(*our, sid) } != 0);
    let known = [WinLocalSystemSid, WinBuiltinAdministratorsSid, WinCreatorOwnerRightsSid];
    // SAFETY: a valid identifier.
    let is_trusted = is_ours || known.iter().any(|known| unsafe { IsWellKnownSid(sid, *known) } != 0);
    mask & RIGHTS != 0 && !is_trusted
}

/// The user of this process, as the system describes it: a structure, followed by what it points
/// to. Of integers, because the structure has the alignment of a pointer.
struct User(Vec<usize>);

impl User {
    fn sid(&self) -> PSID {
        // SAFETY: the system wrote this structure to the beginning.
        unsafe { (*self.0.as_ptr().cast::<TOKEN_USER>()).User.Sid }
    }

    /// Returns the identifier as text, such as `S-1-5-21-1-2-3-1001`.
    fn text(&self) -> Result<String> {
        let mut text = null_mut();
        // SAFETY: a valid identifier. The answer ends in a zero, and is freed once.
        unsafe {
            check(ConvertSidToStringSidW(self.sid(), &raw mut text))?;
            let length = (0..).take_while(|index| *text.add(*index) != 0).count();
            let copy = String::from_utf16_lossy(std::slice::from_raw_parts(text, length));
            LocalFree(text.cast());
            Ok(copy)
        }
    }
}

/// Returns the user of this process.
fn user() -> Result<User> {
    let mut token: HANDLE = null_mut();
    // SAFETY: a pseudo-handle that is always valid, and a local variable.
    check(unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &raw mut token) })?;
    // A structure with a pointer, and an identifier of at most 68 bytes.
    let mut room = vec![0_usize; 16];
    let size = u32::try_from(size_of_val(room.as_slice())).unwrap_or_default();
    let mut length = 0;
    // SAFETY: an open token, and a buffer of this size.
    let answer =
        unsafe { GetTokenInformation(token, TokenUser, room.as_mut_ptr().cast(), size, &raw mut length) };
    let outcome = check(answer);
    // SAFETY: opened above, and not used afterwards.
    unsafe { CloseHandle(token) };
    outcome.map(|()| User(room))
}

fn check(answer: i32) -> Result<()> {
    if answer == 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
pub(in crate::config) fn write_private(file: &Path, text: &str) {
    tests::write(file, text, "");
}

#[cfg(test)]
mod tests {
    use std::os::windows::ffi::OsStrExt;

    use windows_sys::Win32::Security::Authorization::{
        ConvertStringSecurityDescriptorToSecurityDescriptorW, SDDL_REVISION_1,
    };
    use windows_sys::Win32::Security::{PROTECTED_DACL_SECURITY_INFORMATION, SetFileSecurityW};

    use super::super::read;
    use super::*;

    /// Writes a file whose list has entries for this user, the system and the administrators, and
    /// these others, in the security descriptor definition language.
    pub(super) fn write(file: &Path, text: &str, others: &str) {
        std::fs::write(file, text).unwrap();
        let list =
            format!("D:P(A;;FA;;;{})(A;;FA;;;SY)(A;;FA;;;BA){others}\0", user().unwrap().text().unwrap());
        let list: Vec<u16> = list.encode_utf16().collect();
        let name: Vec<u16> = file.as_os_str().encode_wide().chain([0]).collect();
        let mut descriptor = null_mut();
        // SAFETY: both texts end in a zero, and the descriptor is freed once.
        unsafe {
            check(ConvertStringSecurityDescriptorToSecurityDescriptorW(
                list.as_ptr(),
                SDDL_REVISION_1,
                &raw mut descriptor,
                null_mut(),
            ))
            .unwrap();
            let parts = DACL_SECURITY_INFORMATION | PROTECTED_DACL_SECURITY_INFORMATION;
            check(SetFileSecurityW(name.as_ptr(), parts, descriptor)).unwrap();
            LocalFree(descriptor);
        }
    }

    /// Returns how others can use a file whose list has these entries too.
    fn with(name: &str, others: &str) -> Option<Exposure> {
        let path = std::env::temp_dir().join(format!("zklock-{name}-{}", std::process::id()));
        write(&path, "digest:a:b", others);
        let found = exposure(&File::open(&path).unwrap(), &path).unwrap();
        std::fs::remove_file(&path).unwrap();
        found
    }

    #[test]
    fn a_secret_is_for_its_owner_alone() {
        assert_eq!(with("own", ""), None);
        // Everyone may read, or write.
        for (name, others) in [("read", "(A;;FR;;;WD)"), ("write", "(A;;FW;;;WD)")] {
            let found = with(name, others).unwrap();
            let sid = user().unwrap().text().unwrap();
            assert!(found.remedy.contains("/reset` and `icacls"), "{found:?}");
            assert!(sid.starts_with("S-1-") && found.remedy.contains(&format!("\"*{sid}:F\"")), "{found:?}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let file = std::env::temp_dir().join(format!("zklock-open-{}", std::process::id()));
        write(&file, "digest:a:b", "(A;;FR;;;WD)");
        let refused = read(&file).unwrap_err();
        std::fs::remove_file(&file).unwrap();
        assert_eq!((refused.code(), refused.argument()), ("BAD_ARGUMENT", Some("auth_file")));
        assert!(refused.to_string().contains("run `icacls"), "{refused}");
    }
}
