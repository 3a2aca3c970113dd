// Threads of a block as fibers of one thread of the CPU: each runs to its next barrier, or to its end, and then the next
// one does. Between two barriers they run in order, then backwards: what lacks a barrier goes wrong in one of the two.
#pragma once

#define FUEL_STACK_NBYTES (65536 + 320) // apart by no power of two, so that stacks do not share lines of a cache
#define FUEL_MOST_THREADS 1024

struct fuel_fiber {
    void *stack;
    unsigned int barrier; // where it waits; 0 once it has ended
};

static thread_local struct {
    void *scheduler;
    fuel_fiber *now;
    void (*body)(void **);
    void **arguments;
} fuel_block;

extern "C" void fuel_switch(void **from, void *to) __attribute__((visibility("hidden")));

#if defined(__x86_64__) && !defined(FUEL_PORTABLE)
asm(R"(
.text
.globl fuel_switch
.hidden fuel_switch
.type fuel_switch, @function
fuel_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size fuel_switch, .-fuel_switch
)");

static void *fuel_stack(char *stack, void (*entry)()) {
    void **top = (void **)(stack + FUEL_STACK_NBYTES);
    *--top = nullptr; // whom `entry` never returns to
    *--top = (void *)entry;
    return top - 6;
}
#else
#include <ucontext.h>

// A context lies at the bottom of its stack. The scheduler's lies on its own.
static thread_local ucontext_t fuel_scheduler;

void fuel_switch(void **from, void *to) {
    ucontext_t *ours = from == &fuel_block.scheduler ? &fuel_scheduler : (ucontext_t *)*from;
    *from = ours;
    swapcontext(ours, (ucontext_t *)to);
}

static void *fuel_stack(char *stack, void (*entry)()) {
    ucontext_t *context = (ucontext_t *)stack;
    getcontext(context);
    context->uc_stack.ss_sp = stack + sizeof(ucontext_t);
    context->uc_stack.ss_size = FUEL_STACK_NBYTES - sizeof(ucontext_t);
    context->uc_link = nullptr;
    makecontext(context, entry, 0);
    return context;
}
#endif

static inline void fuel_leave(unsigned int barrier) {
    fuel_block.now->barrier = barrier;
    fuel_switch(&fuel_block.now->stack, fuel_block.scheduler);
}

static void fuel_enter() {
    fuel_block.body(fuel_block.arguments);
    fuel_leave(0);
    __builtin_trap();
}

#define __syncthreads() fuel_leave(__LINE__)

// Whether all threads of the block came to each barrier together.
static bool fuel_run_fibers(void (*body)(void **), void **arguments, char *stacks) {
    fuel_fiber fibers[FUEL_MOST_THREADS];
    unsigned int count = blockDim.x * blockDim.y * blockDim.z;
    fuel_block.body = body;
    fuel_block.arguments = arguments;
    for (unsigned int i = 0; i < count; i++) {
        fibers[i].stack = fuel_stack(stacks + (size_t)i * FUEL_STACK_NBYTES, fuel_enter);
    }
    for (bool forwards = true;; forwards = !forwards) {
        for (unsigned int step = 0; step < count; step++) {
            unsigned int i = forwards ? step : count - 1 - step;
            threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
            fuel_block.now = &fibers[i];
            fuel_switch(&fuel_block.scheduler, fibers[i].stack);
        }
        for (unsigned int i = 1; i < count; i++) {
            if (fibers[i].barrier != fibers[0].barrier) {
                return false;
            }
        }
        if (!fibers[0].barrier) {
            return true;
        }
    }
}
