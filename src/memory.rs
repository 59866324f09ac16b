//! Memory for one request.
//!
//! A Kubewarden host makes a fresh instance for every evaluation and drops it whole. So memory is handed out in a row and
//! taken back only at the end of the row, which grows and shrinks the buffer being written. That costs a fifth of the
//! general allocator's instructions, and allocation was a good part of every request's bill (`make bench`).

use std::alloc::{GlobalAlloc, Layout};
use std::arch::wasm32::{memory_grow, memory_size};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const PAGE: usize = 64 * 1024;
/// Pages are asked for in steps, so that the host is not asked often.
const STEP: usize = 4;

/// The row: where the next block starts, and where the pages we hold end. Atomics because a static must be shared
/// safely; without threads they are plain numbers.
struct Row {
    next: AtomicUsize,
    end: AtomicUsize,
}

#[global_allocator]
static ROW: Row = Row { next: AtomicUsize::new(0), end: AtomicUsize::new(0) };

impl Row {
    /// Adds pages with room for a block of this size. Returns whether they continue the row; if somebody else (the C
    /// library) has grown the memory since, the row starts anew in them.
    #[cold]
    #[inline(never)]
    fn add_pages(&self, size: usize) -> Option<bool> {
        let pages = (size / PAGE).saturating_add(STEP);
        let had = memory_size(0);
        if memory_grow(0, pages) == usize::MAX {
            return None;
        }
        let goes_on = had * PAGE == self.end.load(Relaxed);
        if !goes_on {
            self.next.store(had * PAGE, Relaxed);
        }
        self.end.store((had + pages) * PAGE, Relaxed);
        Some(goes_on)
    }

    /// A block where the row's pages have ended.
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

#[expect(unsafe_code, reason = "an allocator cannot be written without; each block is within pages that we alone hold")]
// SAFETY: blocks are aligned, do not overlap, and lie within pages that `memory_grow` gave to us.
unsafe impl GlobalAlloc for Row {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Without overflow checks, but none is missing: the row never ends within an alignment of the last address,
        // and what would wrap around is above the end by its size alone.
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
        // SAFETY: the caller vouches for `layout` and `new_size`, and the two blocks do not overlap.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, layout.size().min(new_size));
            }
            moved
        }
    }
}
