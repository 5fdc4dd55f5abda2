//! The egress guard: what must never be dialled, spelled in every way we know, and what may be.
#![allow(clippy::expect_used)]

use executor::place::Place;
use executor::vet::Guard;
use hyper::Uri;
use std::net::{IpAddr, SocketAddr};
use wire::host::Host;

const OWN: &str = "203.0.113.9:7070";

/// Addresses that are refused however duly listens (not on loopback).
const ADDRESSES: &str = "
    0.0.0.0 0.0.0.1 0.1.2.3 0.255.255.255
    10.0.0.0 10.0.0.1 10.1.2.3 10.255.255.255 10.96.0.1
    100.64.0.0 100.64.0.1 100.100.100.200 100.127.255.255 100.88.0.1
    127.0.0.1 127.0.0.2 127.0.1.1 127.1.2.3 127.255.255.254 127.255.255.255
    168.63.129.16
    169.254.0.0 169.254.0.1 169.254.169.254 169.254.169.253 169.254.169.123 169.254.170.2
    169.254.170.23 169.254.255.255 169.254.42.42
    172.16.0.0 172.16.0.1 172.17.0.1 172.20.10.1 172.31.255.255
    192.0.0.0 192.0.0.1 192.0.0.8 192.0.0.170 192.0.0.171 192.0.0.192 192.0.0.255
    192.0.2.0 192.0.2.1 192.0.2.255
    192.31.196.1 192.52.193.1 192.175.48.1
    192.88.99.0 192.88.99.1 192.88.99.255
    192.168.0.0 192.168.0.1 192.168.1.1 192.168.65.2 192.168.255.255
    198.18.0.0 198.18.0.1 198.19.255.255
    198.51.100.0 198.51.100.7 198.51.100.255
    203.0.113.0 203.0.113.7 203.0.113.255
    224.0.0.0 224.0.0.1 224.0.0.251 232.1.1.1 233.252.0.1 239.255.255.250 239.255.255.255
    240.0.0.0 240.0.0.1 250.1.2.3 255.255.255.254 255.255.255.255
    :: ::1 ::2 ::7f00:1 ::a00:1 ::a9fe:a9fe ::808:808
    ::127.0.0.1 ::10.0.0.1 ::169.254.169.254 ::192.168.1.1 ::8.8.8.8
    ::ffff:0.0.0.0 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:172.16.0.1 ::ffff:192.168.0.1
    ::ffff:169.254.169.254 ::ffff:100.64.0.1 ::ffff:224.0.0.1 ::ffff:255.255.255.255
    ::ffff:8.8.8.8 ::ffff:1.1.1.1 ::ffff:7f00:1 ::ffff:a9fe:a9fe
    ::ffff:0:127.0.0.1 ::ffff:0:10.0.0.1 ::ffff:0:8.8.8.8
    64:ff9b:: 64:ff9b::127.0.0.1 64:ff9b::10.0.0.1 64:ff9b::169.254.169.254 64:ff9b::192.168.0.1
    64:ff9b::8.8.8.8 64:ff9b::a9fe:a9fe
    64:ff9b:1:: 64:ff9b:1::10.0.0.1 64:ff9b:1::169.254.169.254 64:ff9b:1:ffff::1
    100:: 100::1 100::ffff:ffff:ffff:ffff 100:0:0:1::1
    2001:: 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:0:a00:1::1
    2001:1::1 2001:1::2 2001:2::1 2001:3::1 2001:4:112::1 2001:5::1
    2001:10::1 2001:1f:ffff::1 2001:20::1 2001:2f:ffff::1 2001:30::1 2001:1ff::1
    2001:db8:: 2001:db8::1 2001:db8:ffff:ffff::1 3fff:: 3fff::1 3fff:fff:ffff::1
    2002:: 2002:7f00:1:: 2002:a00:1:: 2002:a9fe:a9fe:: 2002:c0a8:101:: 2002:808:808::
    2002:7f00:1::1 2620:4f:8000::1 5f00::1 5f00:ffff::1
    4000::1 6000::1 8000::1 a000::1 c000::1 e000::1 f000::1 f800::1 fbff::1 200::1 400::1 1000::1
    fc00:: fc00::1 fcff::1 fd00::1 fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fdff:ffff::1
    fe80:: fe80::1 fe80::a9fe:a9fe febf::1 fec0::1 fed0::1 feff::1
    ff00:: ff01::1 ff02::1 ff02::fb ff05::2 ff0e::1 ffff::1
    ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";

/// URLs that must be refused as they stand: at submission and at dialling the same rule reads them.
const SPELLINGS: &[&str] = &[
    // Numbers that some resolvers read as 127.0.0.1 or 169.254.169.254.
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0X7F000001/",
    "http://017700000001/",
    "http://0x7f.0.0.1/",
    "http://0x7f.0x0.0x0.0x1/",
    "http://0177.0.0.1/",
    "http://0177.0.0.01/",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.0.0.01/",
    "http://127.0.0.001/",
    "http://127.0.0.0x1/",
    "http://127.00.0.1/",
    "http://00127.0.0.1/",
    "http://127.0x1/",
    "http://2852039166/",
    "http://0xa9fea9fe/",
    "http://0xa9.0xfe.0xa9.0xfe/",
    "http://0251.0376.0251.0376/",
    "http://169.254.43518/",
    "http://169.16689662/",
    "http://0/",
    "http://00/",
    "http://0x0/",
    "http://1/",
    "http://10.1/",
    "http://192.168.257/",
    "http://256.256.256.256/",
    "http://127.0.0.256/",
    "http://1.2.3.4.5/",
    "http://1.2.3/",
    "http://4294967295/",
    "http://4294967296/",
    "http://99999999999/",
    "http://0xffffffff/",
    "http://127.0.0.1./",
    "http://localhost./",
    "http://example.com./",
    "http://127.0.0.1../",
    "http://.127.0.0.1/",
    "http://127..0.0.1/",
    "http://127.0.0./",
    "http://example.127/",
    "http://example.0x7f/",
    "http://metadata.1/",
    // Other scripts, encoded or not.
    "http://%31%32%37.0.0.1/",
    "http://127%2e0%2e0%2e1/",
    "http://local%68ost/",
    "http://%6cocalhost/",
    "http://１２７.0.0.1/",
    "http://127。0。0。1/",
    "http://127．0．0．1/",
    "http://127｡0｡0｡1/",
    "http://ⓛocalhost/",
    "http://①②⑦.0.0.1/",
    "http://ｌocalhost/",
    "http://localhoſt/",
    // User names, ports, zones, brackets.
    "http://user@127.0.0.1/",
    "http://user:pass@127.0.0.1/",
    "http://example.com@127.0.0.1/",
    "http://127.0.0.1@example.com/",
    "http://example.com%00@127.0.0.1/",
    "http://@127.0.0.1/",
    "http://:80/",
    "http://127.0.0.1:0/",
    "http://127.0.0.1:65536/",
    "http://127.0.0.1:/",
    "http://127.0.0.1:80:80/",
    "http://127.0.0.1:-1/",
    "http://127.0.0.1:0x50/",
    "http://[::1%25lo]/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://[::1/",
    "http://::1/",
    "http://[127.0.0.1]/",
    "http://[::ffff:127.1]/",
    "http://[::ffff:0x7f.0.0.1]/",
    "http://[0:0:0:0:0:0:0:0:1]/",
    "http://[1::2::3]/",
    "http://[]/",
    "http://[v1.fe80::1]/",
    "http://[::1]x/",
    "http://[::1]]/",
    "http://[[::1]]/",
    // What is no target at all.
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com/",
    "unix:/run/x.sock",
    "javascript:alert(1)",
    "data:text/plain,x",
    "//example.com/",
    "/v1/jobs",
    "example.com",
    "http:///",
    "http://",
    "https://",
    "http:example.com",
    "http:/example.com",
    "ws://example.com/",
    "http://a b/",
    "http://exa\tmple.com/",
    "http://example.com\\@127.0.0.1/",
    "http://exam\nple/",
    "http://-a.example/",
    "http://a-.example/",
    "http://a..example/",
    "http://a_b..c/",
];

/// What a target with this URL would be dialled as; the error says why not.
fn judge(guard: &Guard, url: &str) -> Result<SocketAddr, String> {
    let uri: Uri = url.parse().map_err(|_| "not a URL".to_string())?;
    let place = Place::of(&uri)?;
    match place.host {
        Host::Address(ip) => {
            let to = SocketAddr::new(ip, place.port);
            guard.vet(to).map(|()| to).map_err(str::to_string)
        }
        // A name: its addresses are judged when they are known.
        Host::Name(_) => Ok(SocketAddr::new(IpAddr::from([1, 1, 1, 1]), place.port)),
    }
}

fn guard(own: &str, allow: &[&str]) -> Guard {
    let allow = allow.iter().map(|one| one.parse().expect("a network")).collect();
    Guard::new(own.parse().expect("an address"), allow)
}

fn literal(ip: &str) -> String {
    if ip.contains(':') { format!("http://[{ip}]/") } else { format!("http://{ip}/") }
}

#[test]
fn more_than_two_hundred_cases_are_all_blocked() {
    let guard = guard(OWN, &[]);
    let mut cases: Vec<String> = ADDRESSES.split_whitespace().map(literal).collect();
    let addresses = cases.len();
    // The same through TLS, and on other ports.
    cases.extend(ADDRESSES.split_whitespace().map(|ip| literal(ip).replace("http:", "https:")));
    cases.extend(SPELLINGS.iter().map(|one| one.to_string()));
    assert!(addresses >= 150 && SPELLINGS.len() >= 90, "{addresses} {}", SPELLINGS.len());
    let passed: Vec<&String> = cases.iter().filter(|one| judge(&guard, one).is_ok()).collect();
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn public_addresses_pass() {
    let guard = guard(OWN, &[]);
    for ip in "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255
        128.0.0.1 168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0
        191.255.255.255 192.0.1.0 192.0.3.0 192.88.98.1 192.167.255.255 192.169.0.0 198.17.255.255
        198.20.0.0 198.51.99.1 203.0.112.1 223.255.255.255 2000::1 2001:200::1 2001:4860:4860::8888
        2001:db7::1 2003::1 2606:4700::1111 2a00:1450:4001::1 3ffe::1"
        .split_whitespace()
    {
        assert!(judge(&guard, &literal(ip)).is_ok(), "{ip}");
    }
    assert!(judge(&guard, "https://hooks.example.com:8443/x?y#z").is_ok());
}

#[test]
fn loopback_only_while_we_listen_there_and_never_our_own_port() {
    let at_home = guard("127.0.0.1:7070", &[]);
    for url in ["http://127.0.0.1:9000/", "http://[::1]:9000/", "http://127.8.8.8:9000/"] {
        assert!(judge(&at_home, url).is_ok(), "{url}");
        assert!(judge(&guard(OWN, &[]), url).is_err(), "{url}");
    }
    let everything = ["0.0.0.0/0", "::/0"];
    for own in ["127.0.0.1:7070", "[::1]:7070", "0.0.0.0:7070", "[::]:7070", "198.51.100.1:7070"] {
        for url in [
            "http://127.0.0.1:7070/",
            "http://127.8.8.8:7070/",
            "http://[::1]:7070/",
            "http://0.0.0.0:7070/",
            "http://[::]:7070/",
            "http://[::ffff:127.0.0.1]:7070/",
            "http://[::127.0.0.1]:7070/",
            "http://[64:ff9b::127.0.0.1]:7070/",
            "http://[2002:7f00:1::]:7070/",
        ] {
            assert!(judge(&guard(own, &[]), url).is_err(), "{own} {url}");
            // Nothing that is allowed includes ourselves.
            assert!(judge(&guard(own, &everything), url).is_err(), "{own} {url}");
        }
    }
    assert!(judge(&guard("198.51.100.1:7070", &everything), "http://198.51.100.1:7070/").is_err());
}

#[test]
fn what_is_allowed_passes_and_only_that() {
    let guard = guard(OWN, &["10.20.0.0/16", "fd12::/16", "64:ff9b::/96"]);
    for ip in ["10.20.0.1", "10.20.255.255", "fd12::1", "64:ff9b::8.8.8.8", "64:ff9b::10.20.0.1"] {
        assert!(judge(&guard, &literal(ip)).is_ok(), "{ip}");
    }
    // A translated address must pass as what it is, too.
    for ip in [
        "10.21.0.1",
        "10.19.255.255",
        "fd13::1",
        "64:ff9b::10.0.0.1",
        "64:ff9b::127.0.0.1",
        "64:ff9b::169.254.169.254",
        "::ffff:10.20.0.1",
        "169.254.169.254",
        "127.0.0.1",
    ] {
        assert!(judge(&guard, &literal(ip)).is_err(), "{ip}");
    }
}
