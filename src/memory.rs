//! An allocator for one request.
//!
//! A Kubewarden host creates a fresh instance for every evaluation and drops it whole. So blocks are allocated in a
//! row, and freed or resized only at the end of the row, where the buffer that is being written usually is. This takes
//! a fifth of the general allocator's instructions, and allocation was a large part of a request's cost (`make bench`).

use std::alloc::{GlobalAlloc, Layout};
use std::arch::wasm32::{memory_grow, memory_size};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const PAGE: usize = 64 * 1024;
/// Pages are requested in steps, so that the host is called rarely.
const STEP: usize = 4;

/// The row: the start of the next block, and the end of our pages. Atomics because a static must be shared safely;
/// without threads they are plain numbers.
struct Row {
    next: AtomicUsize,
    end: AtomicUsize,
}

#[global_allocator]
static ROW: Row = Row { next: AtomicUsize::new(0), end: AtomicUsize::new(0) };

impl Row {
    /// Adds pages with room for a block of this size. Returns whether they continue the row; if other code (the C
    /// library) has grown the memory since, the row starts again in the new pages.
    #[cold]
    #[inline(never)]
    fn add_pages(&self, size: usize) -> Option<bool> {
        let pages = (size / PAGE).saturating_add(STEP);
        let had = memory_size(0);
        if memory_grow(0, pages) == usize::MAX {
            return None;
        }
        let continues = had * PAGE == self.end.load(Relaxed);
        if !continues {
            self.next.store(had * PAGE, Relaxed);
        }
        self.end.store((had + pages) * PAGE, Relaxed);
        Some(continues)
    }

    /// Allocates a block beyond the end of the row's pages.
    #[cold]
    #[inline(never)]
    fn alloc_in_new_pages(&self, layout: Layout) -> *mut u8 {
        if self.add_pages(layout.size()).is_none() {
            return ptr::null_mut();
        }
        let start = self.next.load(Relaxed).next_multiple_of(layout.align());
        self.next.store(start + layout.size(), Relaxed);
        start as *mut u8
    }
}

#[expect(unsafe_code, reason = "an allocator needs it; each block is within pages that only we use")]
// SAFETY: blocks are aligned, do not overlap, and are within pages that `memory_grow` gave to us.
unsafe impl GlobalAlloc for Row {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // No overflow checks are needed: the row never ends within an alignment of the last address, and a size that
        // would wrap around is larger than the room.
        let start = self.next.load(Relaxed).wrapping_add(layout.align() - 1) & layout.align().wrapping_neg();
        let room = self.end.load(Relaxed).wrapping_sub(start);
        if layout.size() > room || start > self.end.load(Relaxed) {
            return self.alloc_in_new_pages(layout);
        }
        self.next.store(start.wrapping_add(layout.size()), Relaxed);
        start as *mut u8
    }

    #[inline(never)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if (block as usize).wrapping_add(layout.size()) == self.next.load(Relaxed) {
            self.next.store(block as usize, Relaxed);
        }
    }

    #[inline(never)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let start = block as usize;
        if start.wrapping_add(layout.size()) == self.next.load(Relaxed) {
            let fits = new_size <= self.end.load(Relaxed).wrapping_sub(start);
            if fits || self.add_pages(new_size - layout.size()) == Some(true) {
                self.next.store(start.wrapping_add(new_size), Relaxed);
                return block;
            }
        } else if new_size <= layout.size() {
            return block;
        }
        // SAFETY: the caller guarantees `layout` and `new_size`, and the two blocks do not overlap.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, layout.size().min(new_size));
            }
            moved
        }
    }
}
