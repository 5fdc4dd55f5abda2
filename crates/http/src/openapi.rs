//! The OpenAPI document, made from the table of routes, the readers of requests (`wire::shape`) and the
//! types of answers. docs/openapi.json is the same text; a test keeps it so.

use crate::route::{Answers, Param, ParamKind, Route, Scope, Twice};
use axum::response::{IntoResponse, Response};
use hyper::header::CONTENT_TYPE;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;
use wire::answer::DryRun;

static TEXT: LazyLock<String> = LazyLock::new(|| format!("{:#}\n", document()));

pub async fn serve() -> Response {
    ([(CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}

/// The document as it is served and checked in.
pub fn text() -> &'static str {
    &TEXT
}

fn document() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .for_serialize()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for route in crate::table::table() {
        let operation = operation(&route, &mut generator, &mut schemas);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation;
    }
    let problem = generator.subschema_for::<wire::Problem>();
    schemas.extend(generator.take_definitions(true));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "duly",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "A job scheduler that keeps its promises. Unknown fields of requests are \
                refused; ignore unknown fields of answers. Null is the same as absent.",
        },
        "security": [{}, {"key": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {"Problem": {
                "description": "Refused: problem+json (RFC 9457).",
                "headers": {
                    "X-Request-Id": {"schema": {"type": "string"}},
                    "Retry-After": {
                        "description": "Seconds; with 429 and 503.", "schema": {"type": "integer"},
                    },
                },
                "content": {"application/problem+json": {"schema": problem}},
            }},
            "parameters": {
                "Namespace": {
                    "name": "X-Namespace", "in": "header", "schema": {"type": "string"},
                    "description": "The namespace; with an API key the key decides.",
                },
                "RequestId": {
                    "name": "X-Request-Id", "in": "header",
                    "schema": {"type": "string", "minLength": 1, "maxLength": crate::limits::REQUEST_ID_MAX},
                    "description": "Kept on the job, in logs and webhooks; made if absent.",
                },
                "IdempotencyKey": {
                    "name": "Idempotency-Key", "in": "header",
                    "schema": {"type": "string", "minLength": 1, "maxLength": crate::limits::KEY_MAX},
                    "description": "The same key and body again get the first answer, for 24 to 48 hours.",
                },
            },
            "securitySchemes": {"key": {
                "type": "http", "scheme": "bearer", "bearerFormat": "duly_<id>_<secret>",
            }},
        },
    })
}

fn operation(
    route: &Route,
    generator: &mut SchemaGenerator,
    schemas: &mut Map<String, Value>,
) -> Value {
    let reference = |name: &str| json!({"$ref": format!("#/components/parameters/{name}")});
    let mut parameters: Vec<Value> = in_path(route.path);
    parameters.extend(route.query.iter().map(in_query));
    parameters.push(reference("RequestId"));
    if route.scope != Scope::Open {
        parameters.push(reference("Namespace"));
    }
    if route.twice == Twice::Key {
        parameters.push(reference("IdempotencyKey"));
    }
    let mut operation = json!({
        "operationId": operation_id(route),
        "tags": [tag(route.path)],
        "summary": route.summary,
        "description": format!("Needs the scope {}. {}", route.scope.name(), route.twice.says()),
        "parameters": parameters,
        "responses": responses(route, generator),
    });
    if let Some(body) = route.body {
        schemas.insert(body.name.to_string(), wire::shape::describe(body.reader));
        operation["requestBody"] = json!({
            "required": body.required,
            "content": {"application/json": {
                "schema": {"$ref": format!("#/components/schemas/{}", body.name)},
            }},
        });
    }
    if route.scope == Scope::Open {
        operation["security"] = json!([]);
    }
    operation
}

fn responses(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let mut good = json!({
        "description": "Done.",
        "headers": {"X-Request-Id": {"schema": {"type": "string"}}},
    });
    if route.twice == Twice::Key {
        good["headers"]["Idempotency-Replayed"] =
            json!({"schema": {"type": "string", "enum": ["true", "false"]}});
    }
    if route.submits() {
        for name in ["RateLimit-Policy", "RateLimit"] {
            good["headers"][name] = json!({
                "description": "Where a quota applies.", "schema": {"type": "string"},
            });
        }
    }
    match route.answers {
        Answers::Json(schema) => {
            good["content"] = json!({"application/json": {"schema": schema(generator)}});
        }
        Answers::Text(media_type) => good["content"] = json!({ media_type: {} }),
        Answers::Nothing => {}
    }
    let mut responses = json!({ route.status.to_string(): good });
    if let Some(other) = route.or {
        responses[other.to_string()] = responses[route.status.to_string()].clone();
    }
    if route.dry {
        responses["200"] = json!({
            "description": "What it would do, asked with dry_run.",
            "headers": {"X-Request-Id": {"schema": {"type": "string"}}},
            "content": {"application/json": {"schema": generator.subschema_for::<DryRun>()}},
        });
    }
    for status in refusals(route) {
        responses[status.to_string()] = json!({"$ref": "#/components/responses/Problem"});
    }
    responses["default"] = json!({"$ref": "#/components/responses/Problem"});
    responses
}

/// The refusals that a caller should expect; others have the same form (`default`).
fn refusals(route: &Route) -> Vec<u16> {
    let mut list = vec![401, 403, 404, 422, 429, 503];
    if route.body.is_some() {
        list.extend([400, 413, 415]);
    }
    if route.changes_something() {
        list.extend([409, 507]);
    }
    list.sort_unstable();
    list
}

fn in_path(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect()
}

fn in_query(param: &Param) -> Value {
    let schema = match param.kind {
        ParamKind::Text { longest } => json!({"type": "string", "maxLength": longest}),
        ParamKind::Number { first, last } => {
            json!({"type": "integer", "minimum": first, "maximum": last})
        }
        ParamKind::Span => json!({"type": "string", "examples": ["30s", "1h30m"]}),
        ParamKind::Time => json!({"type": "string", "format": "date-time"}),
        ParamKind::Choice(words) => json!({"type": "string", "enum": words}),
        ParamKind::Flag => json!({"type": "boolean"}),
    };
    json!({"name": param.name, "in": "query", "description": param.says, "schema": schema})
}

/// `POST /v1/jobs/{job}/trigger` is `postJobsTrigger`: names of things in the path are left out,
/// unless nothing else tells two routes apart.
fn operation_id(route: &Route) -> String {
    let mut id = route.method.as_str().to_ascii_lowercase();
    let mut one = false;
    for part in route.path.split('/').filter(|part| !part.is_empty() && *part != "v1") {
        one = part.starts_with('{');
        if one {
            continue;
        }
        for word in part.split(['-', '.', '_']) {
            let mut letters = word.chars();
            id.extend(letters.next().map(|first| first.to_ascii_uppercase()));
            id.push_str(letters.as_str());
        }
    }
    if one {
        id.push_str("One");
    }
    id
}

fn tag(path: &str) -> &str {
    match path.strip_prefix("/v1/") {
        Some(rest) => rest.split('/').next().unwrap_or(rest),
        None => "about",
    }
}
