//! Draws compared with their distributions.

use super::*;

#[test]
fn normals_have_their_moments_and_make_uniforms() {
    let mut chance = GeneratorChance::new(3);
    let count = 50_000;
    let (mut sum, mut squares, mut products, mut below) = (0.0, 0.0, 0.0, 0);
    for _ in 0..count {
        let (a, b) = chance.normals();
        sum += a + b;
        squares += a * a + b * b;
        products += a * b;
        below += i32::from(uniform_of_normal(a) < 0.25);
    }
    let count = f64::from(count);
    assert!((sum / (2.0 * count)).abs() < 0.02, "{sum}");
    assert!((squares / (2.0 * count) - 1.0).abs() < 0.02, "{squares}");
    assert!((products / count).abs() < 0.02, "{products}");
    assert!((f64::from(below) / count - 0.25).abs() < 0.01, "{below}");
}

#[test]
fn a_positive_draw_is_never_zero() {
    let mut chance = GeneratorChance::new(9);
    assert!((0..10_000).map(|_| chance.positive()).all(|draw| draw > 0.0 && draw <= 1.0));
}
