/** A lock that two threads share: one writes a frame, the other waits. */
export class WireLock {
    /** What the other thread makes its half from. */
    memory;
    #cell;
    constructor(memory = new SharedArrayBuffer(4)) {
        this.memory = memory;
        this.#cell = new Int32Array(memory);
    }
    /** Takes the lock if it is free. */
    tryAcquire() {
        return Atomics.compareExchange(this.#cell, 0, 0, 1) === 0;
    }
    /** Takes the lock; blocks the thread until it is free. */
    acquire() {
        while (!this.tryAcquire())
            Atomics.wait(this.#cell, 0, 1);
    }
    release() {
        Atomics.store(this.#cell, 0, 0);
        Atomics.notify(this.#cell, 0);
    }
}
