//! Every route, once. What is not here does not exist, and what is here is described: the router, the
//! OpenAPI document, the scopes and the test that sends each request twice are made from this.

use crate::limits::LIST_LIMIT_MAX;
use crate::route::ParamKind::{Choice, Number, Span, Text, Time};
use crate::route::Scope::{Admin, Open, Read, Submit, Worker};
use crate::route::Twice::{Key, Named, Reads, Refused, Same};
use crate::route::{Param, Route, delete, get, patch, post, put};
use crate::{
    about, backfill, batch, cluster, dead, destinations, doctor, events, explain, hold, holds,
    job_patch, job_put, job_read,
};
use crate::{
    job_verbs, jobs, lists, metrics, occurrences, openapi, operations, outbox, preview,
    queue_groups, queues, run_read,
};
use crate::{
    key_verbs, quota_read, run_verbs, secrets, stats, target_test, versions, work, workers,
};
use wire::{answer as a, webhook};

const SHORT: usize = 255;

const LIMIT: Param = Param {
    name: "limit",
    kind: Number { first: 1, last: LIST_LIMIT_MAX },
    says: "At most so many items.",
};
const CURSOR: Param = Param {
    name: "cursor",
    kind: Text { longest: SHORT },
    says: "The next_cursor of the page before.",
};
const QUEUE: Param =
    Param { name: "queue", kind: Text { longest: SHORT }, says: "Only of this queue." };
const Q: Param = Param { name: "q", kind: Text { longest: SHORT }, says: "Holds this text." };
const STATUS: Param = Param {
    name: "status",
    kind: Text { longest: SHORT },
    says: "States with commas between, or the groups pending, finished, failed.",
};
const JOB: Param = Param {
    name: "job",
    kind: Text { longest: SHORT },
    says: "Only of this job, an id or a name.",
};
const WORKER: Param =
    Param { name: "worker", kind: Text { longest: SHORT }, says: "Held by this worker." };
const CAUSE: Param = Param {
    name: "cause",
    kind: Choice(&["one_off", "occurrence", "trigger", "backfill", "rerun"]),
    says: "Why it was made.",
};
const SINCE: Param = Param { name: "since", kind: Time, says: "Ended, or due, at or after this." };
const UNTIL: Param = Param { name: "until", kind: Time, says: "Ended, or due, before this." };

const JOBS: &[Param] = &[
    STATUS,
    QUEUE,
    Param { name: "tag", kind: Text { longest: SHORT }, says: "A tag, or tag:value." },
    Param { name: "owner", kind: Text { longest: SHORT }, says: "Only of this owner." },
    Q,
    LIMIT,
    CURSOR,
];
const RUNS_OF_JOB: &[Param] = &[STATUS, QUEUE, WORKER, CAUSE, Q, SINCE, UNTIL, LIMIT, CURSOR];
const RUNS: &[Param] = &[JOB, STATUS, QUEUE, WORKER, CAUSE, Q, SINCE, UNTIL, LIMIT, CURSOR];
const DEAD: &[Param] = &[JOB, QUEUE, WORKER, CAUSE, Q, SINCE, UNTIL, LIMIT, CURSOR];
const OCCURRENCES: &[Param] = &[
    Param { name: "from", kind: Time, says: "From here; yesterday unless given." },
    Param { name: "to", kind: Time, says: "To here; a week ahead unless given." },
    LIMIT,
    CURSOR,
];
const EVENTS: &[Param] = &[
    Param {
        name: "types",
        kind: Text { longest: SHORT },
        says: "Types with commas between, or what stands before their dot.",
    },
    JOB,
    QUEUE,
    Param {
        name: "last_event_id",
        kind: Text { longest: SHORT },
        says: "Go on after this one, like the header Last-Event-ID.",
    },
];

pub fn table() -> Vec<Route> {
    vec![
        post("/v1/jobs", jobs::create)
            .says("Make a job.", Submit, Key)
            .body("JobRequest", jobs::read_one)
            .answers::<a::Created>(202),
        get("/v1/jobs", lists::jobs)
            .says("Jobs, newest first.", Read, Reads)
            .query(JOBS)
            .answers::<a::Jobs>(200),
        post("/v1/jobs/batch", batch::batch)
            .says("Make many jobs; each has its own answer, in order.", Submit, Key)
            .body("BatchRequest", batch::read_only)
            .answers::<a::Batch>(200),
        get("/v1/jobs/{job}", job_read::show).says("A job.", Read, Reads).answers::<a::Job>(200),
        put("/v1/jobs/{job}", job_put::put)
            .says("Make a job of this name, or change it to this.", Submit, Same)
            .body("JobRequest", jobs::read_one)
            .answers::<a::Job>(200)
            .or(201),
        patch("/v1/jobs/{job}", job_patch::patch)
            .says("Change a job: a merge patch, with If-Match.", Submit, Same)
            .body("PatchRequest", job_patch::read_only)
            .answers::<a::Job>(200),
        delete("/v1/jobs/{job}", job_verbs::cancel)
            .says("Cancel a job.", Submit, Same)
            .answers::<a::JobChanged>(200),
        post("/v1/jobs/{job}/pause", job_verbs::pause)
            .says("Pause a recurring job.", Submit, Same)
            .optional_body("PauseRequest", job_verbs::read_pause_only)
            .answers::<a::JobChanged>(200),
        post("/v1/jobs/{job}/resume", job_verbs::resume)
            .says("Resume a paused job.", Submit, Same)
            .answers::<a::JobChanged>(200),
        post("/v1/jobs/{job}/trigger", job_verbs::trigger)
            .says("Run a recurring job now, beside its schedule.", Submit, Key)
            .optional_body("TriggerRequest", job_verbs::read_payload_only)
            .answers::<a::Triggered>(202),
        post("/v1/jobs/{job}/backfill", backfill::backfill)
            .says("Runs for instants of the past, as an operation.", Submit, Key)
            .body("BackfillRequest", backfill::read_only)
            .answers::<a::Operation>(202)
            .or_only_tells(),
        get("/v1/jobs/{job}/runs", lists::runs_of_job)
            .says("The runs of a job, newest first.", Read, Reads)
            .query(RUNS_OF_JOB)
            .answers::<a::Runs>(200),
        get("/v1/jobs/{job}/occurrences", occurrences::list)
            .says("A job's instants: verdicts of the past, plans of the future.", Read, Reads)
            .query(OCCURRENCES)
            .answers::<a::Occurrences>(200),
        get("/v1/jobs/{job}/stats", stats::stats)
            .says("How a job's last runs went.", Read, Reads)
            .answers::<a::Stats>(200),
        get("/v1/jobs/{job}/versions", versions::list)
            .says("The versions of a recurring job that are kept, newest first.", Read, Reads)
            .answers::<a::JobVersions>(200),
        get("/v1/jobs/{job}/versions/{version}", versions::show)
            .says("One version of a job's definition.", Read, Reads)
            .answers::<a::JobVersion>(200),
        post("/v1/jobs/{job}/versions/{version}/restore", versions::restore)
            .says("Go back to a former definition, as a new version, with If-Match.", Submit, Same)
            .answers::<a::Job>(200),
        get("/v1/runs", lists::runs)
            .says("Runs: unfinished ones first, then the last that ended.", Read, Reads)
            .query(RUNS)
            .answers::<a::Runs>(200),
        get("/v1/runs/{run}/explain", explain::explain)
            .says("Why is it not running?", Read, Reads)
            .answers::<a::Explained>(200),
        get("/v1/dead-letters", dead::list)
            .says("Dead runs, which wait for a person.", Read, Reads)
            .query(DEAD)
            .answers::<a::Runs>(200),
        get("/v1/dead-letters/groups", dead::groups)
            .says("Dead runs by what they died of.", Read, Reads)
            .query(&[Param {
                name: "by",
                kind: Text { longest: SHORT },
                says: "job, error or both.",
            }])
            .answers::<a::Groups>(200),
        post("/v1/dead-letters/replay", dead::replay)
            .says("Replay many dead runs, as an operation.", Submit, Key)
            .body("BulkRequest", dead::read_only)
            .answers::<a::Operation>(202)
            .or_only_tells(),
        post("/v1/dead-letters/discard", dead::discard)
            .says("Discard many dead runs, as an operation.", Submit, Key)
            .body("BulkRequest", dead::read_only)
            .answers::<a::Operation>(202)
            .or_only_tells(),
        get("/v1/operations/{operation}", operations::show)
            .says("How far an operation is.", Read, Reads)
            .answers::<a::Operation>(200),
        post("/v1/operations/{operation}/cancel", operations::cancel)
            .says("Stop an operation; what it did stays.", Submit, Refused)
            .answers::<a::Operation>(200),
        get("/v1/queues", queues::list)
            .says("Queues that have been used, by name.", Read, Reads)
            .query(&[LIMIT, CURSOR])
            .answers::<a::Queues>(200),
        get("/v1/queues/{queue}", queues::show)
            .says("A queue and its numbers.", Read, Reads)
            .answers::<a::Queue>(200),
        put("/v1/queues/{queue}", queues::put)
            .says("What a queue allows; what is left out is not limited.", Admin, Same)
            .body("QueueRequest", queues::read_put_only)
            .answers::<a::Queue>(200),
        get("/v1/queues/{queue}/groups", queue_groups::list)
            .says("The groups of a queue, the longest line first.", Read, Reads)
            .answers::<a::QueueGroups>(200),
        post("/v1/queues/{queue}/pause", queues::pause)
            .says("Start nothing more of a queue; what runs goes on.", Admin, Same)
            .optional_body("QueuePauseRequest", queues::read_only)
            .answers::<a::Queue>(200),
        post("/v1/queues/{queue}/resume", queues::resume)
            .says("Start runs of a queue again.", Admin, Same)
            .answers::<a::Queue>(200),
        get("/v1/events", events::events)
            .says("What happens, as server-sent events.", Read, Reads)
            .query(EVENTS)
            .answers_text("text/event-stream"),
        get("/v1/runs/{run}", run_read::show)
            .says("A run and its attempts.", Read, Reads)
            .query(&[Param { name: "wait", kind: Span, says: "Wait so long for its end." }])
            .answers::<a::Run>(200),
        post("/v1/runs/{run}/cancel", run_verbs::cancel)
            .says("Cancel a run.", Submit, Refused)
            .answers::<a::RunChanged>(200),
        post("/v1/runs/{run}/replay", run_verbs::replay)
            .says("Give a dead run a new budget of attempts.", Submit, Refused)
            .optional_body("ReplayRequest", job_verbs::read_payload_only)
            .answers::<a::RunChanged>(200),
        post("/v1/work/claim", work::claim)
            .says("Ask for runs; waits until there is one.", Worker, Named)
            .body("ClaimRequest", |text, faults| drop(wire::work::ClaimRequest::read(text, faults)))
            .answers::<a::Claimed>(200),
        post("/v1/work/heartbeat", work::heartbeat)
            .says("Say that runs are still under way.", Worker, Same)
            .body("HeartbeatRequest", |text, faults| drop(wire::work::read_beats(text, faults)))
            .answers::<a::Beats>(200),
        post("/v1/work/settle", work::settle)
            .says("Say how runs ended.", Worker, Named)
            .body("SettleRequest", |text, faults| drop(wire::work::read_settles(text, faults)))
            .answers::<a::Settled>(200),
        post("/v1/work/leave", workers::leave)
            .says("Say that a worker goes.", Worker, Same)
            .body("LeaveRequest", |text, faults| drop(wire::work::read_leave(text, faults)))
            .answers::<a::Left>(200),
        get("/v1/workers", workers::list)
            .says("Workers that were heard of lately, by name.", Read, Reads)
            .query(&[LIMIT, CURSOR])
            .answers::<a::Workers>(200),
        get("/v1/workers/{worker}", workers::show)
            .says("A worker, as it was last heard of.", Read, Reads)
            .answers::<a::Worker>(200),
        post("/v1/workers/{worker}/drain", workers::drain)
            .says("Tell a worker to take nothing more, finish, and go.", Admin, Same)
            .optional_body("WorkerDrainRequest", workers::read_only)
            .answers::<a::Worker>(200),
        get("/v1/quotas", quota_read::show)
            .says("What may be submitted, and what of it is left at this node.", Read, Reads)
            .answers::<a::Quotas>(200),
        get("/v1/destinations", destinations::list)
            .says("Where runs are sent to, and which of it fails.", Read, Reads)
            .query(&[LIMIT, CURSOR])
            .answers::<a::Destinations>(200),
        post("/v1/schedules/preview", preview::preview)
            .says("What a schedule will do.", Read, Reads)
            .body("PreviewRequest", preview::read_only)
            .answers::<wire::Preview>(200),
        post("/v1/targets/test", target_test::test)
            .says("Send one signed request to a target now, and say what happened.", Submit, Reads)
            .body("TargetTestRequest", target_test::read_only)
            .answers::<webhook::TargetTested>(200),
        get("/v1/signing-secrets", secrets::list)
            .says("The secrets that sign webhooks now.", Admin, Reads)
            .answers::<webhook::SigningSecrets>(200),
        post("/v1/signing-secrets/rotate", secrets::rotate)
            .says("Make a new secret; both sign while they overlap.", Admin, Key)
            .optional_body("RotateRequest", secrets::read_only)
            .answers::<webhook::SigningSecrets>(200),
        post("/v1/hold", hold::hold)
            .says("The stop button: no new attempts in the scope.", Admin, Same)
            .body("HoldRequest", hold::read_hold)
            .answers::<a::Held>(200),
        get("/v1/holds", holds::list)
            .says("What is held: everything, a namespace, queues.", Read, Reads)
            .answers::<a::Holds>(200),
        post("/v1/release", hold::release)
            .says("Let attempts begin again.", Admin, Same)
            .body("ReleaseRequest", hold::read_release)
            .answers::<a::Held>(200),
        post("/v1/api-keys", key_verbs::create)
            .says("Make an API key; its secret is answered once.", Admin, Refused)
            .body("ApiKeyRequest", key_verbs::read_only)
            .answers::<a::ApiKeyMade>(201),
        get("/v1/api-keys", key_verbs::list)
            .says("The API keys, without their secrets.", Admin, Reads)
            .answers::<a::ApiKeys>(200),
        delete("/v1/api-keys/{key}", key_verbs::revoke)
            .says("Revoke an API key, at once and for ever.", Admin, Same)
            .answers::<a::ApiKey>(200),
        get("/v1/cluster", cluster::show)
            .says("The nodes, and which shard belongs to whom.", Read, Reads)
            .answers::<a::Cluster>(200),
        post("/v1/cluster/drain", cluster::drain)
            .says("Give a node's shards to the others; it takes none any more.", Admin, Same)
            .body("DrainRequest", cluster::read_only)
            .answers::<a::Drained>(200),
        get("/v1/outbox", outbox::show)
            .says("The outboxes that jobs are taken from.", Read, Reads)
            .answers::<a::Outboxes>(200),
        get("/v1/version", about::version)
            .says("Which version this is.", Read, Reads)
            .answers::<a::Version>(200),
        get("/v1/doctor", doctor::show)
            .says("Memory counted against the store.", Admin, Reads)
            .answers::<a::Doctor>(200),
        get("/healthz", about::healthz)
            .says("Is the process alive?", Open, Reads)
            .answers::<a::Health>(200),
        get("/readyz", about::readyz)
            .says("Does every shard answer?", Open, Reads)
            .answers::<a::Health>(200),
        get("/metrics", metrics::show)
            .says("What is counted, for Prometheus.", Read, Reads)
            .answers_text("text/plain; version=0.0.4; charset=utf-8"),
        get("/openapi.json", openapi::serve)
            .says("This document.", Open, Reads)
            .answers_text("application/json"),
    ]
}
