//! The plain client: the crate `object_store` with its defaults, in a separate process.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::{env, fs};

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::aws::AmazonS3Builder;
use object_store::buffered::BufWriter;
use object_store::path::Path as Key;
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt as _};
use tokio::io::AsyncWriteExt as _;

/// First argument that makes this program run as the plain client.
pub(crate) const FLAG: &str = "--plain";
/// Number of concurrent uploads of small objects. The crate has no default for this.
const AT_ONCE: usize = 16;
/// Bytes of a large file per read.
const CHUNK: usize = 1 << 20;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Returns a command that runs the client: `put-all BUCKET DIRECTORY`, `put-one BUCKET FILE`,
/// `get BUCKET KEY` or `list BUCKET`. It prints the number of objects, or of bytes for `get`.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.arg(FLAG).args(arguments);
    command
}

/// Runs as the plain client.
pub(crate) fn main(arguments: &[String]) -> ExitCode {
    // An error means that a provider is already installed.
    drop(rustls::crypto::ring::default_provider().install_default());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match runtime.block_on(run(arguments)) {
        Ok(count) => {
            println!("{count}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &[String]) -> Result<u64, Failure> {
    let [what, bucket, rest @ ..] = arguments else { return Err("no bucket is named".into()) };
    // A timeout would apply to a whole body of any size.
    let options = ClientOptions::new().with_allow_http(true).with_timeout_disabled();
    let builder = AmazonS3Builder::from_env().with_client_options(options);
    let store: Arc<dyn ObjectStore> = Arc::new(builder.with_bucket_name(bucket).build()?);
    match (what.as_str(), rest) {
        ("put-all", [dir]) => put_all(&store, Path::new(dir)).await,
        ("put-one", [file]) => put_one(store, Path::new(file)).await,
        ("get", [key]) => get(&store, key).await,
        ("list", []) => list(&store).await,
        _ => Err(format!("what is `{what}`?").into()),
    }
}

/// Creates an object for each file of a directory, with one request each.
async fn put_all(store: &Arc<dyn ObjectStore>, dir: &Path) -> Result<u64, Failure> {
    let files: Result<Vec<PathBuf>, _> =
        fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path())).collect();
    let put = |path: PathBuf| async move {
        let bytes = fs::read(&path)?;
        store.put(&key_of(&path), bytes.into()).await?;
        Ok::<_, Failure>(())
    };
    let puts = stream::iter(files?).map(put).buffer_unordered(AT_ONCE);
    puts.try_fold(0, |count, ()| async move { Ok(count + 1) }).await
}

/// Creates an object in parts, with the defaults of the crate: 10 MiB each, eight at once.
async fn put_one(store: Arc<dyn ObjectStore>, path: &Path) -> Result<u64, Failure> {
    let mut file = File::open(path)?;
    let mut writer = BufWriter::new(store, key_of(path));
    loop {
        let mut chunk = vec![0; CHUNK];
        let length = file.read(&mut chunk)?;
        if length == 0 {
            break;
        }
        chunk.truncate(length);
        writer.put(Bytes::from(chunk)).await?;
    }
    writer.shutdown().await?;
    Ok(1)
}

async fn get(store: &Arc<dyn ObjectStore>, key: &str) -> Result<u64, Failure> {
    let got = store.get(&Key::from(key)).await?;
    let bytes = got.into_stream().map_ok(|bytes| bytes.len() as u64);
    Ok(bytes.try_fold(0, |sum, bytes| async move { Ok(sum + bytes) }).await?)
}

async fn list(store: &Arc<dyn ObjectStore>) -> Result<u64, Failure> {
    Ok(store.list(None).try_fold(0, |count, _| async move { Ok(count + 1) }).await?)
}

fn key_of(path: &Path) -> Key {
    Key::from(format!("plain/{}", path.file_name().unwrap().to_string_lossy()))
}
