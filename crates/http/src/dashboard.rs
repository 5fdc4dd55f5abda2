//! The dashboard's files, from inside the binary (`build.rs`). They hold no data, so they need no key: the
//! page asks the API as anybody else would. What a browser may do with them is said strictly: scripts,
//! styles and requests of this server only.
//!
//! Addresses of the page's own views (`/jobs/nightly`) are answered with the page, but only to whoever
//! asks for HTML, and never below an address of the API: a program that mistypes one is told so.

use crate::refusal::{Answered, Refusal};
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::Response;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG,
    HeaderName, HeaderValue, IF_NONE_MATCH, VARY,
};
use hyper::{HeaderMap, Method, StatusCode};

/// One file, and its forms that were compressed ahead.
#[derive(Debug)]
pub struct File {
    /// As in the address, from the first slash on.
    path: &'static str,
    /// Of its bytes.
    tag: &'static str,
    plain: &'static [u8],
    br: Option<&'static [u8]>,
    gzip: Option<&'static [u8]>,
}

include!(concat!(env!("OUT_DIR"), "/dashboard_files.rs"));

const INDEX: &str = "/index.html";

/// Files below it carry a hash of their bytes in their name: they never change.
const HASHED: &str = "/assets/";

/// Addresses of the API. A page never stands in for one of them, nor for what lies below.
const API: [&str; 6] = ["/v1", "/cluster/v1", "/healthz", "/readyz", "/metrics", "/openapi.json"];

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const SAFE: [(&str, &str); 5] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
];

/// Is this request for the dashboard? Then no key is needed.
pub fn is_asked(request: &Request) -> bool {
    found(FILES, request.method(), request.uri().path(), request.headers()).is_some()
}

/// Answers what no route of the table has taken.
pub async fn serve(request: Request) -> Answered {
    let (method, headers) = (request.method(), request.headers());
    let file = found(FILES, method, request.uri().path(), headers);
    let file = file.ok_or_else(|| Refusal::not_found("address"))?;
    Ok(answer(file, method, headers))
}

fn found<'a>(
    files: &'a [File],
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Option<&'a File> {
    if ![Method::GET, Method::HEAD].contains(method) || is_api(path) {
        return None;
    }
    let named = |wanted: &str| files.iter().find(|file| file.path == wanted);
    if path == "/" {
        return named(INDEX);
    }
    // A script that is not there must not be answered with a page.
    let is_view = !path.starts_with(HASHED) && wants_html(headers);
    named(path).or_else(|| named(INDEX).filter(|_| is_view))
}

fn is_api(path: &str) -> bool {
    let is_below = |rest: &str| rest.is_empty() || rest.starts_with('/');
    API.iter().any(|of| path.strip_prefix(of).is_some_and(is_below))
}

fn wants_html(headers: &HeaderMap) -> bool {
    let wants = |value: &HeaderValue| value.to_str().is_ok_and(|text| text.contains("text/html"));
    headers.get_all(ACCEPT).iter().any(wants)
}

fn answer(file: &'static File, method: &Method, headers: &HeaderMap) -> Response {
    let (bytes, encoding) = encoded(file, headers);
    // Each form has a tag of its own: a cache that mixed them up would hand out the wrong bytes.
    let tag =
        format!("\"{}{}\"", file.tag, encoding.map(|one| format!("-{one}")).unwrap_or_default());
    let known = headers.get_all(IF_NONE_MATCH).iter().any(|value| {
        let tags = value.to_str().unwrap_or_default();
        tags.split(',').any(|one| one.trim().trim_start_matches("W/") == tag || one.trim() == "*")
    });
    let body = match known || *method == Method::HEAD {
        true => Body::empty(),
        false => Body::from(Bytes::from_static(bytes)),
    };
    let mut response = Response::new(body);
    let out = response.headers_mut();
    let cache = match file.path.starts_with(HASHED) {
        true => "public, max-age=31536000, immutable",
        false => "no-cache",
    };
    out.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    out.insert(VARY, HeaderValue::from_static("accept-encoding, accept"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        out.insert(ETAG, tag);
    }
    for (name, value) in SAFE {
        out.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    out.insert(CONTENT_TYPE, HeaderValue::from_static(media_type(file.path)));
    out.insert(CONTENT_LENGTH, bytes.len().into());
    if let Some(encoding) = encoding {
        out.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    response
}

/// The smallest form that the caller reads.
fn encoded(file: &'static File, headers: &HeaderMap) -> (&'static [u8], Option<&'static str>) {
    let reads = |name: &str| {
        headers.get_all(ACCEPT_ENCODING).iter().any(|value| {
            value.to_str().unwrap_or_default().split(',').any(|one| {
                let mut parts = one.split(';').map(str::trim);
                let is_named = parts.next().is_some_and(|given| given.eq_ignore_ascii_case(name));
                // A weight of nothing is a refusal.
                let refused = parts.any(|part| {
                    part.strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()) == Some(0.0)
                });
                is_named && !refused
            })
        })
    };
    match (file.br, file.gzip) {
        (Some(br), _) if reads("br") => (br, Some("br")),
        (_, Some(gzip)) if reads("gzip") => (gzip, Some("gzip")),
        _ => (file.plain, None),
    }
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "json" | "map" => "application/json",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SOME: [File; 2] = [
        File { path: "/index.html", tag: "i", plain: b"page", br: Some(b"b"), gzip: Some(b"gz") },
        File { path: "/assets/a-1.js", tag: "a", plain: b"script", br: None, gzip: Some(b"gz") },
    ];

    fn headers(list: &[(HeaderName, &'static str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    /// Shown where the binary was built without Node.
    #[test]
    fn the_placeholder_says_how_to_build_the_page() {
        let page = include_str!("dashboard/placeholder.html");
        assert!(page.contains("make web") && page.contains("make run"), "{page}");
    }

    #[test]
    fn a_page_never_stands_in_for_the_api() {
        let html = headers(&[(ACCEPT, "text/html,*/*")]);
        let path_of = |method: &Method, path: &str, headers: &HeaderMap| {
            found(&SOME, method, path, headers).map(|file| file.path)
        };
        for path in [
            "/v1",
            "/v1/",
            "/v1/nothing",
            "/healthz",
            "/metrics/x",
            "/openapi.json",
            "/cluster/v1/node",
        ] {
            assert_eq!(path_of(&Method::GET, path, &html), None, "{path}");
        }
        for path in ["/", "/jobs/a", "/v1x", "/cluster", "/metricsx"] {
            assert_eq!(path_of(&Method::GET, path, &html), Some(INDEX), "{path}");
        }
        let any = headers(&[(ACCEPT, "*/*")]);
        assert_eq!(path_of(&Method::GET, "/", &any), Some(INDEX));
        assert_eq!(path_of(&Method::GET, "/jobs/a", &any), None);
        assert_eq!(path_of(&Method::POST, "/", &html), None);
        assert_eq!(path_of(&Method::GET, "/assets/a-1.js", &any), Some("/assets/a-1.js"));
        assert_eq!(path_of(&Method::GET, "/assets/gone.js", &html), None);
    }

    #[test]
    fn the_smallest_form_that_is_read_is_sent() {
        let form = |file: &'static File, accepts: &'static str| {
            encoded(file, &headers(&[(ACCEPT_ENCODING, accepts)])).1
        };
        assert_eq!(form(&SOME[0], "gzip, deflate, br"), Some("br"));
        assert_eq!(form(&SOME[0], "gzip, br;q=0"), Some("gzip"));
        assert_eq!(form(&SOME[0], "identity"), None);
        assert_eq!(form(&SOME[1], "br, gzip"), Some("gzip"));
        assert_eq!(form(&SOME[1], "br"), None);
    }

    #[test]
    fn what_the_browser_has_is_not_sent_again() {
        let first = answer(&SOME[0], &Method::GET, &headers(&[(ACCEPT_ENCODING, "br")]));
        assert_eq!(first.headers()[ETAG], "\"i-br\"");
        assert_eq!(first.headers()[CONTENT_ENCODING], "br");
        assert_eq!(first.headers()[CACHE_CONTROL], "no-cache");
        let again = headers(&[(ACCEPT_ENCODING, "br"), (IF_NONE_MATCH, "\"x\", \"i-br\"")]);
        assert_eq!(answer(&SOME[0], &Method::GET, &again).status(), StatusCode::NOT_MODIFIED);
        let other = headers(&[(IF_NONE_MATCH, "\"i-br\"")]);
        assert_eq!(answer(&SOME[0], &Method::GET, &other).status(), StatusCode::OK);
        let hashed = answer(&SOME[1], &Method::HEAD, &HeaderMap::new());
        assert_eq!(hashed.headers()[CACHE_CONTROL], "public, max-age=31536000, immutable");
        assert_eq!(hashed.headers()[CONTENT_LENGTH], "6");
    }
}
