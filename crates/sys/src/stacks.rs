//! Stacks for coroutines: one mapping cut into slots, each with a guard page at its lower end.
//!
//! Only touched pages take memory, so unused slots are cheap. A guard with its own protection splits the mapping, and
//! the kernel limits mappings. Since Linux 6.13 a guard can be a mark in the page table instead.

use std::io;
use std::num::NonZeroUsize;
use std::ptr;

use corosensei::stack::StackPointer;

use crate::checked;

/// Enough for a coroutine whose buffers are elsewhere. Frames are larger without inlining.
const USABLE_BYTES: usize = if cfg!(debug_assertions) { 60 * 1024 } else { 12 * 1024 };

/// Tops of stacks are shifted by this much against each other, in so many steps. Otherwise they would all map to the
/// same cache sets.
const SHIFT_BYTES: usize = 64;
const SHIFTS: usize = 16;

/// A pool of stacks. The memory is never returned: it lives as long as the process, as the stacks may.
#[derive(Debug)]
pub struct Stacks {
    start: NonZeroUsize,
    page_bytes: usize,
    slot_bytes: usize,
    slots: usize,
    /// Slots that have been used at least once.
    begun: usize,
    /// Last in, first out: the pages of the latest stack are mapped and in the cache.
    free: Vec<Stack>,
    guard: Guard,
}

impl Stacks {
    /// Reserves addresses for so many stacks.
    ///
    /// # Errors
    /// If there are not enough addresses.
    pub fn new(slots: usize) -> io::Result<Self> {
        let page_bytes = page_bytes();
        let slot_bytes = page_bytes + USABLE_BYTES.next_multiple_of(page_bytes);
        let bytes = slots.max(1).checked_mul(slot_bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        let start = map(bytes)?;
        // SAFETY: the range is the new mapping. It is advice: kernels without huge pages refuse it.
        unsafe { libc::madvise(start.get() as *mut libc::c_void, bytes, libc::MADV_NOHUGEPAGE) };
        let guard = Guard::probe()?;
        Ok(Self { start, page_bytes, slot_bytes, slots, begun: 0, free: Vec::new(), guard })
    }

    /// A stack for a coroutine.
    ///
    /// # Errors
    /// `OutOfMemory` if all are in use, or if the kernel has no room for another guard.
    pub fn take(&mut self) -> io::Result<Stack> {
        if let Some(stack) = self.free.pop() {
            return Ok(stack);
        }
        if self.begun == self.slots {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let limit = self.start.saturating_add(self.begun * self.slot_bytes);
        self.guard.install(limit, self.page_bytes)?;
        let shift = self.begun % SHIFTS * SHIFT_BYTES;
        self.begun += 1;
        Ok(Stack { limit, base: limit.saturating_add(self.slot_bytes - shift) })
    }

    /// Keeps a stack for the next coroutine.
    pub fn give_back(&mut self, stack: Stack) {
        self.free.push(stack);
    }
}

/// Whether guards take mappings, two for each stack; the system limits them (`vm.max_map_count`).
///
/// # Errors
/// If the kernel offers no guards at all.
pub fn guards_take_mappings() -> io::Result<bool> {
    Ok(Guard::probe()? == Guard::Protection)
}

/// A stack of a pool. There is one for each slot.
#[derive(Debug)]
pub struct Stack {
    limit: StackPointer,
    base: StackPointer,
}

// SAFETY: the range from `limit` to `base` is mapped as long as the process lives and belongs to this value alone. Its
// lowest page is a guard, and the rest is larger than the required minimum. Both ends are aligned to 64 bytes.
unsafe impl corosensei::stack::Stack for Stack {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.limit
    }
}

/// How accesses to a page are made to fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// With a mark in the page table.
    Mark,
    /// With a mapping that allows no access.
    Protection,
}

/// `MADV_GUARD_INSTALL`, which `libc` does not name.
const MADV_GUARD_INSTALL: libc::c_int = 102;

impl Guard {
    /// The guard that the kernel offers, tried on a separate page.
    fn probe() -> io::Result<Self> {
        let page_bytes = page_bytes();
        let page = map(page_bytes)?;
        let guard = [Self::Mark, Self::Protection]
            .into_iter()
            .find(|guard| guard.install(page, page_bytes).is_ok())
            .ok_or(io::ErrorKind::Unsupported);
        // SAFETY: the page is the mapping made above, and nothing points into it.
        unsafe { libc::munmap(page.get() as *mut libc::c_void, page_bytes) };
        Ok(guard?)
    }

    fn install(self, page: NonZeroUsize, page_bytes: usize) -> io::Result<()> {
        let page = page.get() as *mut libc::c_void;
        // SAFETY: callers pass an unused page of a mapping of this module.
        let result = unsafe {
            match self {
                Self::Mark => libc::madvise(page, page_bytes, MADV_GUARD_INSTALL),
                Self::Protection => libc::mprotect(page, page_bytes, libc::PROT_NONE),
            }
        };
        checked(result).map(drop)
    }
}

/// New memory, reserved but not touched.
fn map(bytes: usize) -> io::Result<NonZeroUsize> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, kind, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonZeroUsize::new(start as usize)
        .expect("the kernel maps nothing at address zero unless it is asked to"))
}

fn page_bytes() -> usize {
    // SAFETY: the call takes a number and touches no memory.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::hint::black_box;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use corosensei::{Coroutine, CoroutineResult};

    use super::*;

    /// Set in the child process that overflows a stack.
    const OVERFLOW: &str = "OVERFLOW_A_STACK";

    #[test]
    fn overflowing_a_marked_guard_ends_the_process() {
        if Guard::probe().expect("a kernel has guards") == Guard::Mark {
            check_overflow(Guard::Mark, "stacks::tests::overflowing_a_marked_guard_ends_the_process");
        }
    }

    #[test]
    fn overflowing_a_protected_guard_ends_the_process() {
        check_overflow(Guard::Protection, "stacks::tests::overflowing_a_protected_guard_ends_the_process");
    }

    /// Overflows the second of two stacks in a child process: without a guard it would write into the first.
    fn check_overflow(guard: Guard, test: &str) {
        if env::var_os(OVERFLOW).is_some() {
            let mut stacks = Stacks { guard, ..Stacks::new(2).expect("there is memory") };
            let _below = stacks.take().expect("the first of two");
            let stack = stacks.take().expect("the second of two");
            let mut coroutine =
                Coroutine::<(), (), usize, Stack>::with_stack(stack, |_, ()| descend(1 << 20));
            coroutine.resume(());
            return;
        }
        let program = env::current_exe().expect("it has a path");
        let output =
            Command::new(program).args(["--exact", test]).env(OVERFLOW, "").output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{:?} {text}", output.status);
    }

    fn descend(depth: usize) -> usize {
        let frame = black_box([depth; 16]);
        if depth == 0 { 0 } else { descend(depth - 1) + frame[0] }
    }

    #[test]
    fn stacks_are_apart_and_the_last_that_came_back_goes_first() {
        let mut stacks = Stacks::new(3).expect("there is memory");
        let taken = [(); 3].map(|()| stacks.take().expect("one of three"));
        assert!(stacks.take().is_err());
        for pair in taken.windows(2) {
            assert!(pair[0].base.get() <= pair[1].limit.get(), "{pair:?} overlap");
        }
        for stack in &taken {
            assert!(
                stack.base.get() - stack.limit.get()
                    >= stacks.page_bytes + USABLE_BYTES - SHIFTS * SHIFT_BYTES
            );
        }
        let [first, second, _third] = taken;
        let last = second.limit;
        stacks.give_back(first);
        stacks.give_back(second);
        assert_eq!(stacks.take().expect("one came back").limit, last);
    }

    #[test]
    fn a_stack_serves_one_coroutine_after_the_other() {
        let mut stacks = Stacks::new(1).expect("there is memory");
        for round in 0..3 {
            let stack = stacks.take().expect("it came back");
            let mut coroutine = Coroutine::<usize, usize, usize, Stack>::with_stack(stack, |wait, first| {
                let second = wait.suspend(first + 1);
                first + second
            });
            assert!(matches!(coroutine.resume(round), CoroutineResult::Yield(value) if value == round + 1));
            assert!(matches!(coroutine.resume(10), CoroutineResult::Return(value) if value == round + 10));
            stacks.give_back(coroutine.into_stack());
        }
    }
}
