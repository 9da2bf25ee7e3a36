//! The AWS command line, a published client of S3: `pip install awscli`.

use std::process::{Command, Stdio};

/// An installed AWS command line.
pub(crate) struct Aws;

impl Aws {
    /// Finds the command line. Fails with the reason if it is not installed.
    pub(crate) fn find() -> Result<Self, String> {
        let asked = Command::new("aws").arg("--version").stdin(Stdio::null()).output();
        match asked {
            Ok(asked) if asked.status.success() => Ok(Self),
            Ok(asked) => Err(format!("`aws --version` ends with {}", asked.status)),
            Err(error) => Err(format!("{error}; `pip install awscli` installs it")),
        }
    }

    /// Returns `aws s3 ARGUMENTS`, without the settings of the user.
    pub(crate) fn s3(&self, arguments: &[&str]) -> Command {
        let Self = self;
        let mut command = Command::new("aws");
        command.arg("s3").args(arguments);
        for (name, value) in [
            ("AWS_CONFIG_FILE", "/dev/null"),
            ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
            ("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required"),
            ("AWS_RESPONSE_CHECKSUM_VALIDATION", "when_required"),
        ] {
            command.env(name, value);
        }
        command
    }
}
