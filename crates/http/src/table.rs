//! Every route, once. What is not here does not exist, and what is here is described: the router, the
//! OpenAPI document, the scopes and the test that sends each request twice are made from this.

use crate::route::Scope::{Admin, Open, Read, Submit, Worker};
use crate::route::Twice::{Key, Named, Reads, Refused, Same};
use crate::route::{Route, delete, get, post};
use crate::{
    about, doctor, hold, job_read, job_verbs, jobs, openapi, preview, run_read, run_verbs, secrets,
    target_test, work,
};
use wire::{answer as a, webhook};

pub fn table() -> Vec<Route> {
    vec![
        post("/v1/jobs", jobs::create)
            .says("Make a job.", Submit, Key)
            .body("JobRequest", jobs::read_one)
            .answers::<a::Created>(202),
        post("/v1/jobs/batch", jobs::batch)
            .says("Make many jobs; each has its own answer, in order.", Submit, Key)
            .body("BatchRequest", jobs::read_batch_fully)
            .answers::<a::Batch>(200),
        get("/v1/jobs/{job}", job_read::show).says("A job.", Read, Reads).answers::<a::Job>(200),
        delete("/v1/jobs/{job}", job_verbs::cancel)
            .says("Cancel a job.", Submit, Refused)
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
        get("/v1/runs/{run}", run_read::show)
            .says("A run and its attempts.", Read, Reads)
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
        post("/v1/release", hold::release)
            .says("Let attempts begin again.", Admin, Same)
            .body("ReleaseRequest", hold::read_release)
            .answers::<a::Held>(200),
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
        get("/openapi.json", openapi::serve)
            .says("This document.", Open, Reads)
            .answers_text("application/json"),
    ]
}
