// Finds the module that computed a value, for tx.debug.nans(): while it is on, methods of modules record which module runs.
import { insideModule } from '../ir/source.js';
import { type ModuleNames, nameModules } from '../observe/module-names.js';
import { Tensor } from '../tensor/tensor.js';
import type { Member, Module, Parameter } from './module.js';

let ModuleClass!: typeof Module;
let ParameterClass!: typeof Parameter;

/** Every class of modules that was used, and the methods of those whose calls are recorded. */
const classes = new Set<typeof Module>();
const recorded = new Map<object, PropertyDescriptorMap>();
let recording = false;
export function noteClass(made: typeof Module): void {
  if (classes.has(made)) return;
  classes.add(made);
  if (recording) recordCallsOf(made);
}
/** Puts a function around each method of a class, and of those it extends, which says whose code runs. */
function recordCallsOf(made: typeof Module): void {
  for (let type = made.prototype; type !== ModuleClass.prototype; type = Object.getPrototypeOf(type)) {
    if (recorded.has(type)) continue;
    const own = Object.getOwnPropertyDescriptors(type) as PropertyDescriptorMap;
    const methods = Object.entries(own).filter(
      ([name, { value, configurable }]) => name !== 'constructor' && typeof value === 'function' && configurable,
    );
    recorded.set(type, Object.fromEntries(methods));
    for (const [name, method] of methods) {
      const call = method.value as (...args: unknown[]) => unknown;
      const value = function (this: Module, ...args: unknown[]): unknown {
        return insideModule(this, () => call.apply(this, args));
      };
      Object.defineProperty(type, name, { ...method, value });
    }
  }
}

/** A loop over equal layers whose code is written once: each pass has the parameters of another one. */
export class LayerLoop {
  /** The layers, where they are not kept as one. */
  constructor(readonly layers: readonly Module[] = []) {}
}

/** A member's name as the class has it: qProj, layers.0. */
function fieldOf(holder: Module, name: string, member: Member): string {
  const find = (x: unknown, path: string): string | undefined => {
    if (x === member) return path;
    if (!Array.isArray(x)) return undefined;
    return x.map((e, i) => find(e, `${path}.${i}`)).find((found) => found !== undefined);
  };
  for (const [field, x] of Object.entries(holder)) {
    const found = find(x, field);
    if (found !== undefined) return found;
  }
  return name;
}
/** All that is inside a module, by paths of fields. */
function* fieldsOf(holder: Module, prefix = '', seen = new Set<Module>()): Generator<[path: string, member: Member]> {
  if (seen.has(holder)) return;
  seen.add(holder);
  for (const [name, member] of holder.members()) {
    const path = `${prefix}${fieldOf(holder, name, member)}`;
    yield [path, member];
    if (isModule(member)) yield* fieldsOf(member, `${path}.`, seen);
  }
}

const isModule = (x: unknown): x is Module => x instanceof ModuleClass;

/** Modules and their paths become known to tx.debug.nans(). Called by the file that defines these classes. */
export function registerModules(module: typeof Module, parameter: typeof Parameter): void {
  [ModuleClass, ParameterClass] = [module, parameter];
  nameModules(names);
}

const names: ModuleNames = {
  record(on) {
    recording = on;
    if (on) for (const type of classes) recordCallsOf(type);
    else {
      for (const [type, own] of recorded) Object.defineProperties(type, own);
      recorded.clear();
    }
  },
  pathOf(scope, passOf) {
    const parts: string[] = [];
    let [holder, pass, layers] = [
      undefined as Module | undefined,
      undefined as number | undefined,
      [] as readonly Module[],
    ];
    for (const part of scope) {
      if (part instanceof LayerLoop) {
        [pass, layers] = [passOf(part), part.layers];
        continue;
      }
      if (!isModule(part)) continue;
      const named = pass !== undefined && part === layers[0] ? layers[pass]! : part;
      const path = holder && [...fieldsOf(holder)].find(([, member]) => member === named)?.[0];
      if (path !== undefined) parts.push(pass === undefined ? path : path.replace('*', String(pass)));
      else if (holder) parts.push(part.constructor.name); // it belongs to no field
      holder = part;
    }
    return parts.join('.') || (holder?.constructor.name ?? '');
  },
  *tensorsOf(root) {
    if (!isModule(root)) return;
    for (const [path, member] of fieldsOf(root)) {
      const expr = member instanceof Tensor ? member.peek() : undefined;
      if (!expr || isModule(member)) continue;
      const kind = member instanceof ParameterClass ? 'parameter' : 'buffer';
      yield { path, kind, cell: member.cell, expr };
    }
  },
};
