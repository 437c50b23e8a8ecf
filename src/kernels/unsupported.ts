/** A kernel that a device's compiler for kernels cannot take, and why. */
export class Unsupported extends Error {}
