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

#[test]
fn folders_are_relative_to_the_configuration() {
    let read = |s: &mut Section<'_>| s.tables("route", "A route.", CacheRoute::read);
    let text = "[[route]]\nid = \"a\"\norigin = \"file:config\"\n[[route]]\nid = \"b\"\npath = \"/b\"\norigin = \"file:none\"\n";
    let mut routes = parse("test.toml", text, read).expect("it is sound");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let error = CacheRoutes::new(routes.clone()).in_folder(&folder).expect_err("one is not there");
    let want =
        format!("cache.route.origin of `b`: {} cannot be read: ", folder.join("none").display());
    assert!(error.to_string().starts_with(&want), "{error}");
    routes.pop();
    let routes = CacheRoutes::new(routes).in_folder(&folder).expect("it is there");
    assert_eq!(routes.all()[0].origin, OriginPlace::Folder(folder.join("config")));
}
