use super::*;
use proptest::prelude::*;

fn frame(id: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Feeds `chunks` one by one and returns what connections 1 and 2 got, and how it ended.
fn feed(chunks: Vec<Vec<u8>>) -> (Vec<u8>, Vec<u8>, Result<(), MuxError>) {
    block_on(async {
        let (mut peer, stream) = duplex(7);
        let (mux, [mut one, mut two]) = Mux::new(stream, [1, 2]);
        let running = tokio::spawn(mux.run());
        for chunk in chunks {
            if peer.write_all(&chunk).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(peer);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        one.read_to_end(&mut first).await.unwrap();
        two.read_to_end(&mut second).await.unwrap();
        (first, second, running.await.unwrap())
    })
}

#[test]
fn frames_cut_at_every_byte_arrive_whole() {
    let mut bytes = frame(1, b"hello, ");
    bytes.extend(frame(2, b"other"));
    bytes.extend(frame(7, b"nobody's"));
    bytes.extend(frame(1, b""));
    bytes.extend(frame(1, b"world"));
    for cut in 0..=bytes.len() {
        let (one, two, end) = feed(vec![bytes[..cut].to_vec(), bytes[cut..].to_vec()]);
        assert_eq!((one.as_slice(), two.as_slice()), (&b"hello, world"[..], &b"other"[..]), "cut at {cut}");
        end.unwrap();
    }
    let (one, two, end) = feed(bytes.iter().map(|byte| vec![*byte]).collect());
    assert_eq!((one.as_slice(), two.as_slice()), (&b"hello, world"[..], &b"other"[..]));
    end.unwrap();
}

#[test]
fn an_end_inside_a_frame_is_an_error_at_every_byte() {
    let bytes = frame(1, b"hello");
    for cut in 1..bytes.len() {
        let (one, _, end) = feed(vec![bytes[..cut].to_vec()]);
        assert!(matches!(end, Err(MuxError::Cut)), "cut at {cut}: {end:?}");
        assert!(one.is_empty());
    }
}

#[test]
fn a_frame_above_the_limit_is_refused_before_it_is_read() {
    let mut bytes = 1_u32.to_be_bytes().to_vec();
    bytes.extend(u32::MAX.to_be_bytes());
    let (_, _, end) = feed(vec![bytes]);
    let error = end.unwrap_err().to_string();
    assert!(error.contains("4294967295") && error.contains("connection 1"), "{error}");
}

#[test]
fn a_frame_of_exactly_the_limit_passes() {
    block_on(async {
        let (mut peer, stream) = duplex(1 << 20);
        let (mux, [mut one]) = Mux::new(stream, [1]);
        let running = tokio::spawn(mux.run());
        let payload = vec![7_u8; MAX_PAYLOAD];
        let sent = frame(1, &payload);
        let sending = tokio::spawn(async move {
            peer.write_all(&sent).await.unwrap();
            peer
        });
        let mut got = vec![0_u8; MAX_PAYLOAD];
        one.read_exact(&mut got).await.unwrap();
        assert!(got == payload);
        drop(sending.await.unwrap());
        running.await.unwrap().unwrap();
    });
}

#[test]
fn an_unread_connection_does_not_hold_up_the_other() {
    block_on(async {
        let (near, far) = duplex(1 << 16);
        let (a, [mut a1, mut a2]) = Mux::new(near, [1, 2]);
        let (b, [_b1, mut b2]) = Mux::new(far, [1, 2]);
        let running = (tokio::spawn(a.run()), tokio::spawn(b.run()));
        a1.write_all(&vec![1; MAX_PAYLOAD]).await.unwrap();
        a2.write_all(b"urgent").await.unwrap();
        let mut got = [0_u8; 6];
        b2.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"urgent");
        running.0.abort();
        running.1.abort();
    });
}

#[test]
fn a_closed_connection_leaves_the_other_open() {
    block_on(async {
        let (near, far) = duplex(1 << 16);
        let (a, [a1, mut a2]) = Mux::new(near, [1, 2]);
        let (b, [mut b1, mut b2]) = Mux::new(far, [1, 2]);
        let _running = (tokio::spawn(a.run()), tokio::spawn(b.run()));
        drop(a1);
        b1.write_all(b"too late").await.unwrap();
        for round in 0..10_u8 {
            b2.write_all(&[round; 100]).await.unwrap();
            let mut got = [0_u8; 100];
            a2.read_exact(&mut got).await.unwrap();
            assert_eq!(got, [round; 100]);
        }
    });
}

proptest! {
    #[test]
    fn any_split_of_any_frames_arrives_in_order(
        frames in proptest::collection::vec((1_u32..4, proptest::collection::vec(any::<u8>(), 0..200)), 0..12),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
    ) {
        let bytes: Vec<u8> = frames.iter().flat_map(|(id, payload)| frame(*id, payload)).collect();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let chunks = at.windows(2).map(|pair| bytes[pair[0]..pair[1]].to_vec()).collect();
        let (one, two, end) = feed(chunks);
        let of = |id: u32| frames.iter().filter(|(other, _)| *other == id).flat_map(|(_, p)| p.clone()).collect::<Vec<u8>>();
        prop_assert_eq!(one, of(1));
        prop_assert_eq!(two, of(2));
        prop_assert!(end.is_ok());
    }

    #[test]
    fn any_bytes_end_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = feed(vec![bytes]);
    }
}
