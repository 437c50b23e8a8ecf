// The writer of MLIR text that kernels for GPUs and TPUs share.
import { expect, test } from 'vitest';
import { array, elementOf, int, MlirWriter, number, shaped, text } from '../../dist/kernels/mlir.js';

test('operations, regions and attributes in the generic form', () => {
  const w = new MlirWriter();
  const body = w.region(['i32'], (n) => {
    const one = w.pure('arith.constant', [], 'i32', { properties: { value: int(1) } });
    const sum = w.pure('arith.addi', [n, one], 'i32');
    expect(w.pure('arith.addi', [n, one], 'i32')).toBe(sum);
    const [a, b] = w.op('x.two', [sum], ['i32', 'f32'], { attributes: { unit: '', none: undefined } });
    w.op('x.return', [b!, a!], []);
  });
  w.op('x.func', [], [], { properties: { sym_name: text('a "b"') }, regions: [body] });
  expect(w.module({ 'x.version': int(11, 'i64') })).toBe(`"builtin.module"() ({
"x.func"() <{sym_name = "a \\22b\\22"}> ({
^bb0(%0: i32):
%1 = "arith.constant"() <{value = 1 : i32}> : () -> i32
%2 = "arith.addi"(%0, %1) : (i32, i32) -> i32
%3:2 = "x.two"(%2) {unit} : (i32) -> (i32, f32)
"x.return"(%3#1, %3#0) : (f32, i32) -> ()
}) : () -> ()
}) {x.version = 11 : i64} : () -> ()
`);
});

test('what a region computed is computed again outside of it', () => {
  const w = new MlirWriter();
  const one = () => w.pure('arith.constant', [], 'i32', { properties: { value: int(1) } }).id;
  w.region([], () => void expect(one()).toBe('%0'));
  expect(one()).toBe('%1');
  w.region([], () => void expect(one()).toBe('%1'));
});

test('types and numbers', () => {
  expect(shaped('tensor', [8, 16], elementOf('u8'))).toBe('tensor<8x16xi8>');
  expect(shaped('memref', [], 'f32', '#space')).toBe('memref<f32, #space>');
  expect(number(-1, 'f32')).toBe('-1.0 : f32');
  expect(number(true, 'bool')).toBe('true');
  expect(number(Number.NEGATIVE_INFINITY, 'bf16', 'tensor<4xbf16>')).toBe('dense<0xFF80> : tensor<4xbf16>');
  expect([array([1, 2], 'i32'), array([])]).toEqual(['array<i32: 1, 2>', 'array<i64>']);
});
