//! What is evicted first: SIEVE (Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024), by bytes.
//!
//! New entries come to the front of one list. A hand walks from the back to the front; it passes over
//! what was visited since it came by, and evicts the first that was not. Nothing moves when it is hit.

/// Nodes of a chunk: the list grows without moving what it has.
const CHUNK: usize = 1024;

/// No node.
const NONE: u32 = u32::MAX;

/// A place in the list. Used again after its entry is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId(u32);

/// An entry of the directory, as the list knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// Of its key.
    pub(super) hash: u64,
    pub(super) bytes: usize,
    /// Towards the front, where newer entries are. Of a free node: the next free one.
    newer: u32,
    older: u32,
    is_free: bool,
}

/// All entries in the order in which they came.
#[derive(Debug)]
pub(super) struct Sieve {
    chunks: Vec<Box<[Node]>>,
    newest: u32,
    oldest: u32,
    /// The next to look at. None if the hand begins again at the oldest.
    hand: u32,
    free: u32,
    entries: usize,
    bytes: usize,
}

impl Default for Sieve {
    fn default() -> Self {
        let chunks = Vec::new();
        Self { chunks, newest: NONE, oldest: NONE, hand: NONE, free: NONE, entries: 0, bytes: 0 }
    }
}

impl Sieve {
    pub(super) const fn entries(&self) -> usize {
        self.entries
    }

    /// The sum over all entries.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many nodes there are, free ones included: the bound of [`Self::node_at`].
    pub(super) fn nodes(&self) -> usize {
        self.chunks.len() * CHUNK
    }

    /// None if no entry has this place.
    pub(super) fn node_at(&self, at: usize) -> Option<(NodeId, Node)> {
        let node = self.chunks.get(at / CHUNK)?[at % CHUNK];
        let id = NodeId(u32::try_from(at).ok()?);
        (!node.is_free).then_some((id, node))
    }

    /// Adds an entry, as the newest.
    ///
    /// # Panics
    ///
    /// At more than 2^32 entries.
    pub(super) fn insert(&mut self, hash: u64, bytes: usize) -> NodeId {
        if self.free == NONE {
            self.grow();
        }
        let id = self.free;
        self.free = self.node(id).newer;
        *self.node_mut(id) = Node { hash, bytes, newer: NONE, older: self.newest, is_free: false };
        match self.newest {
            NONE => self.oldest = id,
            newest => self.node_mut(newest).newer = id,
        }
        self.newest = id;
        self.entries += 1;
        self.bytes += bytes;
        NodeId(id)
    }

    pub(super) fn set_bytes(&mut self, NodeId(id): NodeId, bytes: usize) {
        let node = self.node_mut(id);
        let before = std::mem::replace(&mut node.bytes, bytes);
        self.bytes = self.bytes - before + bytes;
    }

    /// Removes an entry, and returns what it was.
    pub(super) fn remove(&mut self, NodeId(id): NodeId) -> Node {
        let removed = *self.node(id);
        let Node { newer, older, bytes, .. } = removed;
        match newer {
            NONE => self.newest = older,
            newer => self.node_mut(newer).older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.node_mut(older).newer = newer,
        }
        if self.hand == id {
            self.hand = newer;
        }
        let free = self.free;
        *self.node_mut(id) = Node { hash: 0, bytes: 0, newer: free, older: NONE, is_free: true };
        self.free = id;
        self.entries -= 1;
        self.bytes -= bytes;
        removed
    }

    /// Where the hand is: the caller passes over it or removes it. None if there are no entries.
    pub(super) fn at_hand(&mut self) -> Option<(NodeId, u64)> {
        if self.hand == NONE {
            self.hand = self.oldest;
        }
        (self.hand != NONE).then(|| (NodeId(self.hand), self.node(self.hand).hash))
    }

    /// Moves the hand to the next newer entry.
    pub(super) fn pass_over(&mut self) {
        self.hand = self.node(self.hand).newer;
    }

    #[cold]
    fn grow(&mut self) {
        let first = u32::try_from(self.nodes()).expect("fewer than 2^32 entries");
        let chunk = (first..).take(CHUNK).map(|id| {
            let is_last = (id as usize + 1).is_multiple_of(CHUNK);
            let newer = if is_last { NONE } else { id + 1 };
            Node { hash: 0, bytes: 0, newer, older: NONE, is_free: true }
        });
        self.chunks.push(chunk.collect());
        self.free = first;
    }

    fn node(&self, id: u32) -> &Node {
        &self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }

    fn node_mut(&mut self, id: u32) -> &mut Node {
        &mut self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }
}
