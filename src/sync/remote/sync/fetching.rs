
use std::mem;

use crate::remote::{FarArtifacts, Left, RemoteError, Sync};
use ctxfs_store::{Conversation, Usage, whole_blocks};

impl Sync<'_> {
    ///+ Downloads all artifacts of a conversation without local bytes, within the limits. Returns
    ///+ the number of downloads, and the skipped artifacts; of those without room only the first.
    pub fn fetch_all(
        &self,
        conversation: &Conversation,
        far: &FarArtifacts,
    ) -> Result<(usize, Vec<Left>), RemoteError> {
        let (mut came, mut left) = (0, Vec::new());
        let (limits, mut is_full) = (self.home.limits(), false);
        let mut used =
            limits.quota.map_or(Ok(0), |_| Usage::of(conversation).map(|all| all.bytes))?;
        for artifact in conversation.far_artifacts(None)? {
            let (size, disk) = (artifact.record.size, self.store.space()?);
            let fits = limits.check_disk(&disk, size).and_then(|()| limits.check_quota(used, size));
            if let Err(shortage) = fits {
                if !mem::replace(&mut is_full, true) {
                    left.push(Left { path: artifact.record.path, why: shortage.to_string() });
                }
                continue;
            }
            used = used.saturating_add(whole_blocks(size));
            match far.bring_here(conversation, &artifact) {
                Ok(true) => came += 1,
                Ok(false) => {}
                Err(error) if error.may_pass() => return Err(error),
                Err(error) => {
                    let (path, why) = (artifact.record.path, error.to_string());
                    left.push(Left { path, why });
                }
            }
        }
        Ok((came, left))
    }
}
