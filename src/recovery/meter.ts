// Measures the speed and memory of a run.

/** Measures finished steps, without evaluations and other pauses between them. */
export class Meter {
  readonly #tokens: number;
  readonly #steps: number;
  #from = 0;
  #begin = performance.now();
  #done = 0; // steps since the clock was started
  #clock: number | undefined; // time of the end of the first step, so that loading and the first transfer do not count
  #last = 0; // time of the end of the last step
  #busy = 0; // milliseconds of steps before the last pause
  #loss: number | undefined;
  #memory = 0;
  #peak = 0;

  /** `steps`: of the whole run; `tokens`: of each step. */
  constructor(steps: number, tokens: number) {
    this.#steps = steps;
    this.#tokens = tokens;
  }
  /** Starts the measurement after a step. */
  start(from: number): void {
    this.#from = from;
    this.#begin = performance.now();
  }
  /** Records the end of a step. Returns the seconds since the end of the previous one; undefined for the first. */
  step(step: number, loss: number): number | undefined {
    this.#loss = loss;
    const now = performance.now();
    const took = this.#clock === undefined ? undefined : (now - this.#last) / 1e3;
    if (this.#clock === undefined) this.#clock = now;
    else this.#done = Math.max(this.#done, step - this.#from - 1);
    this.#last = now;
    return took;
  }
  memory(bytes: number): void {
    this.#memory = bytes;
    this.#peak = Math.max(this.#peak, bytes);
  }
  /** Excludes the time since the last step. */
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
      /** The loss of the last finished step. */
      loss: this.#loss,
      tokensPerSecond: perStep ? this.#tokens / perStep : 0,
      /** Bytes in use, as is peakMemory. */
      memory: this.#memory,
      peakMemory: this.#peak,
      secondsLeft: perStep * (this.#steps - this.#from - 1 - this.#done),
      seconds: (performance.now() - this.#begin) / 1e3,
    };
  }
}
