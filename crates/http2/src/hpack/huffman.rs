//! The Huffman code (RFC 7541, section 5.2 and appendix B), decoded half a byte at a time.

use super::error::HpackError;

/// Bits of each symbol's code; the last is the end of the string. The code is canonical: codes of
/// equal length follow each other in the order of their symbols.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, //
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, //
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, //
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, //
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, //
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, //
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, //
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, //
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, //
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, //
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, //
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, //
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, //
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, //
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, //
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, //
    30,
];

/// Inner nodes of the code's tree.
const NODES: usize = 256;
/// The symbol that ends a string, which none may contain.
const END: u16 = 256;
/// No symbol.
const NOTHING: u16 = u16::MAX;

/// What half a byte leads to from an inner node.
#[derive(Clone, Copy)]
struct Transition {
    node: u8,
    /// The symbol completed on the way; every code is longer than half a byte.
    symbol: u16,
}

/// By inner node and half byte; node 0 is the root.
static TRANSITIONS: [[Transition; 16]; NODES] = transitions();

/// Whether a string may end at a node: at most seven bits, all ones, follow the last symbol.
static MAY_END: [bool; NODES] = ends();

/// The tree: children of each inner node. Below 256 another inner node; from 256 on a symbol, plus
/// 256.
const fn tree() -> [[u16; 2]; NODES] {
    let mut tree = [[0u16; 2]; NODES];
    let mut nodes = 1;
    let (mut code, mut length) = (0u32, 0u8);
    while length < 30 {
        length += 1;
        code <<= 1;
        let mut symbol = 0u16;
        while symbol <= END {
            if LENGTHS[symbol as usize] == length {
                let (mut node, mut bit) = (0usize, length - 1);
                while bit > 0 {
                    let side = (code >> bit & 1) as usize;
                    if tree[node][side] == 0 {
                        tree[node][side] = nodes;
                        nodes += 1;
                    }
                    node = tree[node][side] as usize;
                    bit -= 1;
                }
                tree[node][(code & 1) as usize] = symbol + 256;
                code += 1;
            }
            symbol += 1;
        }
    }
    tree
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "nodes are below 256; `u8::try_from` is not const"
)]
const fn transitions() -> [[Transition; 16]; NODES] {
    let tree = tree();
    let mut all = [[Transition { node: 0, symbol: NOTHING }; 16]; NODES];
    let mut from = 0;
    while from < NODES {
        let mut half = 0;
        while half < 16 {
            let (mut node, mut symbol, mut bit) = (from, NOTHING, 4);
            while bit > 0 {
                bit -= 1;
                let child = tree[node][half >> bit & 1];
                if child < 256 {
                    node = child as usize;
                } else {
                    symbol = child - 256;
                    node = 0;
                }
            }
            all[from][half] = Transition { node: node as u8, symbol };
            half += 1;
        }
        from += 1;
    }
    all
}

const fn ends() -> [bool; NODES] {
    let tree = tree();
    let mut ends = [false; NODES];
    let (mut node, mut depth) = (0usize, 0);
    while depth < 8 {
        ends[node] = true;
        node = tree[node][1] as usize;
        depth += 1;
    }
    ends
}

/// Appends the decoded string.
pub(super) fn decode(text: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    let mut node = 0;
    for byte in text {
        for half in [byte >> 4, byte & 0xf] {
            let transition = TRANSITIONS[usize::from(node)][usize::from(half)];
            node = transition.node;
            if transition.symbol != NOTHING {
                out.push(u8::try_from(transition.symbol).map_err(|_| HpackError::Huffman)?);
            }
        }
    }
    if MAY_END[usize::from(node)] { Ok(()) } else { Err(HpackError::Huffman) }
}
