//! What can happen next in the world.

use model::{NodeId, RunId, Time, Token};
use shard::command::{Answer, Command, CommandId, End, Leased};
use shard::{CallId, Message, StoreAnswer, StoreCall};

#[derive(Clone, Debug)]
pub enum Happens {
    Tick {
        node: usize,
        number: u64,
    },
    /// A store call reaches the store.
    CallArrives {
        node: usize,
        boot: u64,
        id: CallId,
        call: StoreCall,
    },
    CallReturns {
        node: usize,
        boot: u64,
        id: CallId,
        answer: StoreAnswer,
    },
    /// A node that heard something acts on it.
    Act {
        node: usize,
        boot: u64,
    },
    /// Of a message that the network repeats no copy bounces: another one may have been heard, so
    /// "nobody listens there" would be a refusal that was none.
    MessageArrives {
        to: NodeId,
        from: NodeId,
        message: Message,
        repeated: bool,
    },
    /// A caller's command reaches a node.
    CommandArrives {
        node: usize,
        id: CommandId,
        shard: u16,
        command: Command,
    },
    /// An answer reaches whoever asked.
    AnswerArrives {
        id: CommandId,
        answer: Answer,
    },
    /// A caller has waited long enough.
    GiveUp {
        id: CommandId,
    },
    /// A caller hangs up without having heard.
    HangUp {
        node: usize,
        id: CommandId,
    },
    Client,
    Fault,
    NodeStarts {
        node: usize,
    },
    /// A node that leaves looks whether it has given everything away.
    MayGo {
        node: usize,
        boot: u64,
        by: Time,
    },
    Claim {
        worker: usize,
    },
    Beat {
        worker: usize,
        life: u64,
    },
    WorkEnds {
        worker: usize,
        life: u64,
        run: RunId,
        token: Token,
    },
    SettleAgain {
        worker: usize,
        life: u64,
        run: RunId,
        token: Token,
        end: End,
        tries: u8,
    },
    /// A node's executor looks for webhooks to send.
    Execute {
        node: usize,
        boot: u64,
        shard: u16,
    },
    WebhookArrives {
        node: usize,
        boot: u64,
        leased: Leased,
        request: u64,
    },
    WebhookEnds {
        node: usize,
        boot: u64,
        run: RunId,
        token: Token,
        end: End,
        tries: u8,
    },
}

/// Who asked a command.
#[derive(Clone, Debug)]
pub enum Asker {
    Client { op: usize },
    Worker { worker: usize, life: u64, what: Asked },
    Executor { node: usize, boot: u64, what: Asked },
}

#[derive(Clone, Debug)]
pub enum Asked {
    Claim { request: u64 },
    Beat { sent: Time, beats: Vec<shard::command::Beat> },
    Settle { run: RunId, token: Token, end: End, seen: usize, tries: u8 },
}
