//! Parameters and results of functions: few parameters, none of them a tuple.

use syn::visit::{Visit, visit_signature};
use syn::{FnArg, ReturnType, Signature, Type};

/// Most parameters of a function, including its receiver.
const PARAMETERS_MAX: usize = 5;

/// Most members of a returned tuple; more need a structure with names.
const MEMBERS_MAX: usize = 3;

/// The functions of a file with too many parameters or too long tuples.
pub fn problems(path: &str, text: &str) -> Vec<String> {
    let file = syn::parse_file(text).expect("a source file is Rust");
    let mut functions = Functions { path, problems: Vec::new() };
    functions.visit_file(&file);
    functions.problems
}

struct Functions<'a> {
    path: &'a str,
    problems: Vec<String>,
}

impl<'a> Visit<'a> for Functions<'_> {
    fn visit_signature(&mut self, signature: &'a Signature) {
        let (path, name) = (self.path, &signature.ident);
        let taken = signature.inputs.len();
        if taken > PARAMETERS_MAX {
            self.problems.push(format!("{path}: {name} takes {taken}, at most {PARAMETERS_MAX}"));
        }
        if signature.inputs.iter().any(|taken| parameter(taken) > 1) {
            self.problems.push(format!("{path}: {name} takes a tuple"));
        }
        let returned = match &signature.output {
            ReturnType::Type(_, returned) => members(returned),
            ReturnType::Default => 0,
        };
        if returned > MEMBERS_MAX {
            self.problems.push(format!("{path}: {name} returns a tuple of {returned}"));
        }
        visit_signature(self, signature);
    }
}

fn parameter(parameter: &FnArg) -> usize {
    match parameter {
        FnArg::Receiver(_) => 1,
        FnArg::Typed(parameter) => members(&parameter.ty),
    }
}

/// Members of a tuple, nested ones included; 1 for any other type.
fn members(of: &Type) -> usize {
    match of {
        Type::Tuple(tuple) => tuple.elems.iter().map(members).sum::<usize>().max(1),
        Type::Reference(reference) => members(&reference.elem),
        Type::Paren(inner) => members(&inner.elem),
        _ => 1,
    }
}

#[test]
fn long_lists_and_tuples_are_found() {
    let found = |text: &str| problems("a.rs", text);
    assert!(found("fn f(a: A, b: B, c: C, d: D, e: &[(E, F)]) -> (A, B, C) {}").is_empty());
    let method = "impl T { fn f(&self, a: A, b: B, c: C, d: D, e: E) {} }";
    assert_eq!(found(method), ["a.rs: f takes 6, at most 5"]);
    assert_eq!(found("fn f((a, b): &(A, B)) {}"), ["a.rs: f takes a tuple"]);
    assert_eq!(found("fn f() -> (A, B, (C, D)) {}"), ["a.rs: f returns a tuple of 4"]);
}
