//! Any bytes as what another node sends: no panic; letters that are accepted are written back so that
//! they are read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use peers::codec::{Batch, Read, read};

fuzz_target!(|data: &[u8]| {
    let Some(letters) = read(data) else { return };
    for one in letters {
        let Read::Letter(letter) = &one else { continue };
        let mut batch = Batch::default();
        if batch.add(letter).is_ok() {
            assert_eq!(read(&batch.into_bytes()), Some(vec![one.clone()]));
        }
    }
});
