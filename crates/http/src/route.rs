//! What a route is: its address, who may use it, what it hears and answers. The router and the
//! OpenAPI document are both made from these, so a route without a description cannot exist.

use crate::{Api, door};
use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use hyper::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use wire::Faults;

/// Who may use a route. A key has one scope; `Admin` may use all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Anybody who is heard at all, without a key too.
    Open,
    /// See jobs, runs and queues.
    Read,
    /// Make and change jobs and runs, and see them.
    Submit,
    /// Claim, heartbeat, settle.
    Worker,
    /// Keys, holds, queues, secrets.
    Admin,
}

impl Scope {
    /// Of a key.
    pub fn of(name: &str) -> Option<Scope> {
        [Scope::Read, Scope::Submit, Scope::Worker, Scope::Admin]
            .into_iter()
            .find(|scope| scope.name() == name)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Scope::Open => "none",
            Scope::Read => "read",
            Scope::Submit => "submit",
            Scope::Worker => "worker",
            Scope::Admin => "admin",
        }
    }
}

/// What the same request does when it comes twice. A generated test sends each one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twice {
    /// It changes nothing the first time either.
    Reads,
    /// With one Idempotency-Key it is done once, and the first answer is repeated.
    Key,
    /// The second one finds things as it wants them.
    Same,
    /// The second one finds the thing gone or in another state, and is told so.
    Refused,
    /// What is done is named in the request (a token, a request id): the answer is the same.
    Named,
}

impl Twice {
    pub const fn says(self) -> &'static str {
        match self {
            Twice::Reads => "It changes nothing.",
            Twice::Key => {
                "Sent twice with one Idempotency-Key it is done once and the answer is repeated, \
                 with Idempotency-Replayed: true."
            }
            Twice::Same => "Sent twice it changes nothing more.",
            Twice::Refused => "Sent twice the second one is refused, because the first was done.",
            Twice::Named => "Sent twice with the same names in it, it is done once.",
        }
    }
}

/// A parameter behind the `?`.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    pub name: &'static str,
    pub kind: ParamKind,
    pub says: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub enum ParamKind {
    Text { longest: usize },
    Number { first: u64, last: u64 },
    Span,
    Time,
    Choice(&'static [&'static str]),
    Flag,
}

/// Reads the body; asked for its shape too.
pub type Reader = fn(&str, &mut Faults);

#[derive(Clone, Copy, Debug)]
pub struct Body {
    pub name: &'static str,
    pub reader: Reader,
    pub required: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Answers {
    Json(fn(&mut SchemaGenerator) -> Schema),
    /// Another media type.
    Text(&'static str),
    Nothing,
}

/// A route without its description: the table takes none of these.
#[derive(Debug)]
pub struct Bare {
    method: Method,
    path: &'static str,
    handler: MethodRouter<Arc<Api>>,
}

#[derive(Clone, Debug)]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub summary: &'static str,
    pub scope: Scope,
    pub twice: Twice,
    pub body: Option<Body>,
    pub query: &'static [Param],
    pub status: u16,
    /// Another good status with the same answer.
    pub or: Option<u16>,
    /// It can be asked what it would do, which is answered with 200.
    pub dry: bool,
    pub answers: Answers,
    handler: MethodRouter<Arc<Api>>,
}

macro_rules! methods {
    ($($name:ident $method:ident),*) => { $(
        pub fn $name<H, T>(path: &'static str, handler: H) -> Bare
        where
            H: Handler<T, Arc<Api>>,
            T: 'static,
        {
            Bare { method: Method::$method, path, handler: on(MethodFilter::$method, handler) }
        }
    )* };
}
methods!(get GET, post POST, put PUT, patch PATCH, delete DELETE);

impl Bare {
    pub fn says(self, summary: &'static str, scope: Scope, twice: Twice) -> Route {
        let Bare { method, path, handler } = self;
        Route {
            method,
            path,
            summary,
            scope,
            twice,
            body: None,
            query: &[],
            status: 200,
            or: None,
            dry: false,
            answers: Answers::Nothing,
            handler,
        }
    }
}

impl Route {
    pub fn body(mut self, name: &'static str, reader: Reader) -> Route {
        self.body = Some(Body { name, reader, required: true });
        self
    }

    pub fn optional_body(mut self, name: &'static str, reader: Reader) -> Route {
        self.body = Some(Body { name, reader, required: false });
        self
    }

    pub fn query(mut self, query: &'static [Param]) -> Route {
        self.query = query;
        self
    }

    pub fn answers<T: JsonSchema>(mut self, status: u16) -> Route {
        self.status = status;
        self.answers = Answers::Json(|generator| generator.subschema_for::<T>());
        self
    }

    /// The same answer with another status: 201 where something was made and not changed.
    pub fn or(mut self, status: u16) -> Route {
        self.or = Some(status);
        self
    }

    pub fn or_only_tells(mut self) -> Route {
        self.dry = true;
        self
    }

    pub fn answers_text(mut self, media_type: &'static str) -> Route {
        self.answers = Answers::Text(media_type);
        self
    }

    /// Makes jobs or runs: quotas of submissions apply.
    pub fn submits(&self) -> bool {
        self.scope == Scope::Submit && (self.twice == Twice::Key || self.method == Method::PUT)
    }

    pub fn changes_something(&self) -> bool {
        self.twice != Twice::Reads
    }
}

/// The router of these routes; each has its gate in front (`door::gate`).
pub fn router(
    api: &Arc<Api>,
    routes: Vec<Route>,
    served: impl Fn(&Route) -> bool,
) -> Router<Arc<Api>> {
    let mut router = Router::new();
    // Numbers are those of the whole table: the counters know them.
    for (index, route) in routes.into_iter().enumerate().filter(|(_, route)| served(route)) {
        let gate = door::Gate::of(api.clone(), index, &route);
        let layer = axum::middleware::from_fn_with_state(Arc::new(gate), door::pass);
        router = router.route(route.path, route.handler.layer(layer));
    }
    router
}
