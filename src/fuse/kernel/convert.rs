//! Conversions between our types and fuser's.

use fuser::{FileAttr, FileHandle, FileType, INodeNo, RenameFlags, Request, TimeOrNow};

use crate::{
    Attr, Caller, Fh, FileKind, FsError, Ino, NewTime, RenameMode, RequestOrigin, RequestSubject,
    Result,
};

pub(super) fn caller(request: &Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid(), pid: request.pid() }
}

pub(super) fn node(request: &Request, node: INodeNo) -> RequestOrigin {
    RequestOrigin::new(RequestSubject::Node(Ino(node.0)), request.pid())
}

pub(super) fn released(fh: FileHandle) -> RequestOrigin {
    RequestOrigin::new(RequestSubject::Handle(Fh(fh.0)), 0)
}

pub(super) fn handle(request: &Request, fh: FileHandle) -> RequestOrigin {
    RequestOrigin::new(RequestSubject::Handle(Fh(fh.0)), request.pid())
}

pub(super) fn kind(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
    }
}

pub(super) fn attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.ino.0),
        size: attr.size,
        blocks: attr.blocks,
        atime: attr.atime,
        mtime: attr.mtime,
        ctime: attr.ctime,
        crtime: attr.ctime,
        kind: kind(attr.kind),
        perm: attr.perm,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

pub(super) fn time(time: TimeOrNow) -> NewTime {
    match time {
        TimeOrNow::Now => NewTime::Now,
        TimeOrNow::SpecificTime(time) => NewTime::At(time),
    }
}

pub(super) fn rename_mode(flags: RenameFlags) -> Result<RenameMode> {
    if flags.is_empty() {
        Ok(RenameMode::Replace)
    } else if flags == RenameFlags::RENAME_NOREPLACE {
        Ok(RenameMode::KeepExisting)
    } else if flags == RenameFlags::RENAME_EXCHANGE {
        Ok(RenameMode::Exchange)
    } else {
        Err(FsError::Invalid("rename flags"))
    }
}
