//! Requests of several hosts and paths, and their routes.

use runtime::config::{Section, parse};

use super::*;

#[test]
fn the_most_specific_route_counts() {
    let route = |id: &str, keys: &str| {
        format!("[[route]]\nid = \"{id}\"\norigin = \"http://127.0.0.1:1\"\n{keys}\n")
    };
    let text = [
        route("any", ""),
        route("any-images", "path = \"/images/\""),
        route("own", "host = \"Cdn.example\"\npath = \"/a/\""),
        route("own-deep", "host = \"cdn.example\"\npath = \"/a/b/\""),
    ];
    let read = |s: &mut Section<'_>| s.tables("route", "A route.", CacheRoute::read);
    let routes = parse("test.toml", &text.concat(), read).expect("it is sound");
    let routes = CacheRoutes::new(routes);
    let id = |host: &str, path: &str| routes.find(host, path).map(|at| routes.all()[at].id.clone());
    for (host, path, want) in [
        ("cdn.example", "/a/b/c", "own-deep"),
        ("CDN.example", "/a/c", "own"),
        ("cdn.example", "/images/x", "any-images"),
        ("cdn.example", "/b", "any"),
        ("other.example", "/a/b/c", "any"),
    ] {
        assert_eq!(id(host, path).as_deref(), Some(want), "{host}{path}");
    }
}
