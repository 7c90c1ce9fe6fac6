//! Several connections in one stream: every frame is a connection's id and a length, both 32-bit big-endian, and that many bytes.
//!
//! A connection is an ordinary byte stream; where a frame ends means nothing. Frames of connections that nobody opened are dropped, as the Go
//! implementation does. When the stream ends or breaks, every connection ends.
//!
//! One reader serves all connections in turn. A connection that is not read holds up the others only after [`BUFFER`] unread bytes, which is more
//! than one whole ttrpc message; both users of a connection read without waiting for anything else, so they cannot hold each other up.
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

/// The connection on which the runtime calls the plugin.
pub const PLUGIN_CONNECTION: u32 = 1;
/// The connection on which the plugin calls the runtime.
pub const RUNTIME_CONNECTION: u32 = 2;
/// The most bytes that one frame carries: a ttrpc message of 4 MiB with its header.
pub const MAX_PAYLOAD: usize = (4 << 20) + 10;
const HEADER: usize = 8;
/// How many bytes of a connection wait to be read before the others are held up.
pub const BUFFER: usize = 2 * MAX_PAYLOAD;
/// How much is read from a local writer for one frame.
const CHUNK: usize = 64 << 10;

/// Why a multiplexed stream ended.
#[derive(Debug, thiserror::Error)]
pub enum MuxError {
    /// The stream broke.
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// The stream ended in the middle of a frame.
    #[error("the connection ended inside a frame")]
    Cut,
    /// The peer announced a frame that the protocol does not allow.
    #[error("the peer announced a frame of {length} bytes on connection {id}; at most {MAX_PAYLOAD} are allowed")]
    TooLong {
        /// The connection.
        id: u32,
        /// The announced length in bytes.
        length: usize,
    },
}

/// The work of a multiplexed stream; nothing moves unless [`Mux::run`] runs.
#[derive(Debug)]
pub struct Mux<S> {
    stream: S,
    connections: Vec<(u32, DuplexStream)>,
}

impl<S: AsyncRead + AsyncWrite + Send + 'static> Mux<S> {
    /// Opens connections with the given ids in `stream`, and returns them in that order.
    #[must_use]
    pub fn new<const N: usize>(stream: S, ids: [u32; N]) -> (Self, [DuplexStream; N]) {
        let mut inner = Vec::with_capacity(N);
        let outer = ids.map(|id| {
            let (near, far) = duplex(BUFFER);
            inner.push((id, near));
            far
        });
        (Self { stream, connections: inner }, outer)
    }

    /// Moves bytes until the stream ends, then ends all connections. Dropping the future ends them too.
    ///
    /// # Errors
    /// [`MuxError`] where the stream does not end between two frames.
    pub async fn run(self) -> Result<(), MuxError> {
        let (reader, writer) = split(self.stream);
        let writer = Arc::new(Mutex::new(writer));
        let mut inward = Vec::new();
        let mut outward = JoinSet::new();
        for (id, connection) in self.connections {
            let (from_local, to_local) = split(connection);
            inward.push((id, to_local));
            outward.spawn(send(id, from_local, Arc::clone(&writer)));
        }
        let receive = receive(reader, inward);
        tokio::pin!(receive);
        loop {
            tokio::select! {
                ended = &mut receive => return ended,
                // A local user that closes its connection ends that connection only; a write that fails ends all.
                Some(sent) = outward.join_next() => sent.map_err(|error| MuxError::Io(io::Error::other(error)))??,
            }
        }
    }
}

async fn receive<S: AsyncRead>(
    mut reader: ReadHalf<S>,
    mut connections: Vec<(u32, WriteHalf<DuplexStream>)>,
) -> Result<(), MuxError> {
    let mut buffer = Vec::new();
    while let Some((id, length)) = header(&mut reader).await? {
        if length > MAX_PAYLOAD {
            return Err(MuxError::TooLong { id, length });
        }
        buffer.clear();
        let mut payload = (&mut reader).take(length as u64);
        if payload.read_to_end(&mut buffer).await? < length {
            return Err(MuxError::Cut);
        }
        if let Some(at) = connections.iter().position(|(other, _)| *other == id)
            && connections[at].1.write_all(&buffer).await.is_err()
        {
            // The local user closed this connection; what still comes for it is dropped.
            connections.swap_remove(at);
        }
    }
    Ok(())
}

/// The next frame's id and length; `None` where the stream ends between frames.
async fn header<R: AsyncRead + Unpin>(reader: &mut R) -> Result<Option<(u32, usize)>, MuxError> {
    let mut bytes = [0_u8; HEADER];
    let mut filled = 0;
    while filled < HEADER {
        match reader.read(&mut bytes[filled..]).await? {
            0 if filled == 0 => return Ok(None),
            0 => return Err(MuxError::Cut),
            read => filled += read,
        }
    }
    let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    Ok(Some((word(0), word(4) as usize)))
}

async fn send<S: AsyncWrite>(
    id: u32,
    mut from_local: ReadHalf<DuplexStream>,
    writer: Arc<Mutex<WriteHalf<S>>>,
) -> Result<(), MuxError> {
    let mut frame = vec![0_u8; HEADER + CHUNK];
    frame[..4].copy_from_slice(&id.to_be_bytes());
    loop {
        let length = from_local.read(&mut frame[HEADER..]).await?;
        let Ok(length @ 1..) = u32::try_from(length) else { return Ok(()) };
        frame[4..HEADER].copy_from_slice(&length.to_be_bytes());
        let mut writer = writer.lock().await;
        writer.write_all(&frame[..HEADER + length as usize]).await?;
        writer.flush().await?;
    }
}

#[cfg(test)]
mod tests;
