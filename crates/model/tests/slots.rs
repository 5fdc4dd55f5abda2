//! The slot hash is stored in every id ever given out. If this test fails, the hash changed and
//! every existing store is unreadable: put the hash back, do not change the numbers.
use model::{Namespace, Slot};

#[test]
fn slots_are_what_they_have_always_been() {
    let vectors = [
        (0, "default", 0, 4004),
        (1, "default", 0, 2728),
        (0, "billing", 0, 3516),
        (0, "billing", 1, 1216),
        (4_294_967_295, "", 65_535, 396),
    ];
    let found: Vec<u16> =
        vectors.iter().map(|(ns, q, p, _)| Slot::of(Namespace(*ns), q, *p).bits()).collect();
    assert_eq!(found, vectors.map(|v| v.3));
}
