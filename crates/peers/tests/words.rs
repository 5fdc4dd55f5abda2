//! Alone in its process, because the words that are kept are the whole process's.
#![allow(clippy::expect_used)]

use node::Letter;
use peers::codec::{Batch, Read, read};
use shard::Message;
use shard::command::{Answer, CommandId, Refused};

/// However many reasons were heard before: what is said of a refusal that is not known here is read as
/// it was written.
#[test]
fn our_own_words_for_a_refusal_are_read_as_they_were_written() {
    let sent = |why: &'static str| {
        let answer = Answer::Refused(Refused::Invalid(why));
        let letter = Letter::Core(Message::Answer { id: CommandId(1), answer, try_no: 1 });
        let mut batch = Batch::default();
        assert!(batch.add(&letter).is_ok());
        (read(&batch.into_bytes()).expect("it is read"), vec![Read::Letter(letter)])
    };
    for number in 0..100 {
        sent(Box::leak(format!("reason {number}").into_boxed_str()));
    }
    let (heard, said) = sent("the owner of its shard refused it for a reason not known here");
    assert_eq!(heard, said);
}
