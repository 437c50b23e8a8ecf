// How fast a run goes, and what memory it takes.

/** Measured over the steps that are done, without what stands between them. */
export class Meter {
  readonly #tokens: number;
  readonly #steps: number;
  #from = 0;
  #begin = performance.now();
  #done = 0; // steps since the clock was started
  #clock: number | undefined; // when the first step was done: without loading and the first transfer
  #last = 0; // when the last one was
  #busy = 0; // milliseconds until the last break
  #loss: number | undefined;
  #memory = 0;
  #peak = 0;

  /** A run of so many steps, of so many tokens each. */
  constructor(steps: number, tokens: number) {
    this.#steps = steps;
    this.#tokens = tokens;
  }
  /** Now, behind this step. */
  start(from: number): void {
    this.#from = from;
    this.#begin = performance.now();
  }
  step(step: number, loss: number): void {
    this.#loss = loss;
    const now = performance.now();
    if (this.#clock === undefined) this.#clock = now;
    else this.#done = Math.max(this.#done, step - this.#from - 1);
    this.#last = now;
  }
  memory(bytes: number): void {
    this.#memory = bytes;
    this.#peak = Math.max(this.#peak, bytes);
  }
  /** What happened since the last step does not count. */
  skip(): void {
    if (this.#clock === undefined) return;
    this.#busy += this.#last - this.#clock;
    this.#clock = performance.now();
    this.#last = this.#clock;
  }
  get now() {
    const busy = (this.#busy + (this.#clock === undefined ? 0 : this.#last - this.#clock)) / 1e3;
    const perStep = this.#done ? busy / this.#done : 0;
    return {
      /** Of the last step that is done. */
      loss: this.#loss,
      tokensPerSecond: perStep ? this.#tokens / perStep : 0,
      /** Bytes. */
      memory: this.#memory,
      peakMemory: this.#peak,
      secondsLeft: perStep * (this.#steps - this.#from - 1 - this.#done),
      seconds: (performance.now() - this.#begin) / 1e3,
    };
  }
}
