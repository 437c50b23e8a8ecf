// What PyTorch/XLA's tests assert about debug output, metrics, donation, caches and graphs, in our words, and what answers it
// here. docs/conformance.md shows this table (scripts/conformance.ts); table.test.ts holds both to what is there.

/** The commit of pytorch/xla that was read. */
export const COMMIT = '41398bfff334fc8d3b1c00be6ea8cc5411f6d6bf';

export const STATES = {
  same: 'the same behaviour',
  differs: 'another behaviour, on purpose',
  absent: 'about something that does not exist here',
} as const;
export type State = keyof typeof STATES;

export interface Row {
  /** The name of their test. */
  readonly test: string;
  readonly behaviour: string;
  readonly state: State;
  /** Our test: its file under test/, without .test.ts, and its name. */
  readonly ours?: readonly [file: string, name: string];
  /** What differs, or why there is nothing. */
  readonly note?: string;
}
export interface Theirs {
  readonly file: string;
  readonly rows: readonly Row[];
}

/** "debug: name" is a test of test/conformance/debug.test.ts, "./cache: name" one of test/cache.test.ts. */
function find(test: string): readonly [string, string] {
  const [, file, name] = /^(\S+): (.*)$/.exec(test)!;
  return [file!.includes('/') ? file!.slice(2) : `conformance/${file}`, name!];
}
const same = (test: string, behaviour: string, ours: string): Row => ({
  test,
  behaviour,
  state: 'same',
  ours: find(ours),
});
const differs = (test: string, behaviour: string, ours: string, note: string): Row => ({
  ...same(test, behaviour, ours),
  state: 'differs',
  note,
});
const absent = (test: string, behaviour: string, note: string): Row => ({ test, behaviour, state: 'absent', note });

const DYNAMO = 'there is no Dynamo: `compile` traces by itself';
const EAGER = 'there is no eager mode: operations are described, and run when a value is read';
const FALLBACK = 'no operation ever runs on the host: one that cannot be compiled is an error';
const USER_DONATION =
  'buffers are not marked: what a step changes in place is given up, and `dispose()` frees the rest';

export const table: readonly Theirs[] = [
  {
    file: 'test/debug_tool/test_pt_xla_debug.py',
    rows: [
      absent('test_eager_sync', 'Nothing is printed in eager mode.', EAGER),
      same(
        'test_user_sync',
        "A sync that computes something new prints one compilation and one execution, both with the user's sync as cause, and one hash.",
        'debug: one compilation and one execution, of one graph, because the user asked',
      ),
      same(
        'test_user_sync',
        'A compile is followed by the five sizes of its memory, in GB.',
        'debug: after a compile, five sizes in GB',
      ),
      same(
        'test_user_sync',
        'Random numbers are a graph of one input, the seed, and one output.',
        "debug: random numbers are a graph of one input, the generator's state, and one output",
      ),
      same(
        'test_user_sync',
        'With PT_XLA_DEBUG_LEVEL=1 compiles are told, executions are not.',
        'debug: 1 tells of compiles, not of executions',
      ),
      same(
        'test_user_sync',
        'With PT_XLA_DEBUG alone, both are told.',
        'debug: 2, and PT_XLA_DEBUG alone, tell of both',
      ),
      absent(
        'test_step_trace',
        'Leaving a traced step of the profiler ends a step, and the cause says so.',
        'there is no profiler with regions that end a step',
      ),
      absent('test_dynamo', 'A program of Dynamo has causes of its own.', DYNAMO),
      same(
        'test_torch_xla_compile',
        'What was pending before a compiled function is run first, with a cause and a name that say so; then the function, under its name.',
        'debug: what was pending comes first, under its name and _clear_pending; then it',
      ),
      differs(
        'test_torch_xla_compile',
        'Calling a compiled function first runs all that is pending.',
        'debug: where nothing that it needs is pending, it alone',
        'only what the function needs is computed first; other pending tensors stay pending',
      ),
      same(
        'test_torch_xla_compile_custom_name',
        'A compiled function is told under the name it is given.',
        'debug: has the name that it is given',
      ),
      same(
        'test_parallel_loader',
        'Ten equal batches: one compilation and ten executions, all of one hash.',
        'debug: the same again: one compilation, and an execution each time, all of one hash',
      ),
      same(
        'test_parallel_loader',
        'A loader that ends a step is its cause.',
        'debug: a loader that ends a step with each batch is the cause',
      ),
      differs(
        'test_parallel_loader',
        'A number in the code is an input of the graph: 2 inputs.',
        'debug: the same again: one compilation, and an execution each time, all of one hash',
        'it is a constant: 1 input; a number that changes is given as an argument or kept in a tensor',
      ),
      same(
        'test_print',
        'Printing a tensor that has no value yet compiles and runs, and the cause is that user code wants a value.',
        'debug: a value that is not there: the cause says that user code asked for it',
      ),
      same(
        'test_frame',
        'Each block shows the 8 innermost frames, or PT_XLA_DEBUG_MAX_FRAME, and dots if there are more.',
        "debug: the user's, innermost first: 8, and dots for the rest",
      ),
      same(
        'test_frame',
        'PT_XLA_DEBUG_MAX_FRAME is how many frames are shown.',
        'debug: as many as PT_XLA_DEBUG_MAX_FRAME says: %s',
      ),
      differs(
        'test_frame',
        "The first frame is the library's own sync.",
        "debug: the user's, innermost first: 8, and dots for the rest",
        "only the user's frames are shown; the cause says which call it was",
      ),
    ],
  },
  {
    file: 'test/debug_tool/test_mp_pt_xla_debug.py',
    rows: [
      same(
        '_mp_fn',
        'Of several processes on one machine, only the first one writes.',
        'debug: on a machine with several processes only the first one tells',
      ),
    ],
  },
  {
    file: 'test/test_metrics.py',
    rows: [
      same(
        'test_clear_counters',
        'An operation is counted under xla:: and its name; cleared counters are gone from names, values and report, and begin anew.',
        'metrics: counters: they are gone, and count again from nothing',
      ),
      differs(
        'test_clear_metrics',
        'Making a tensor of numbers is measured at once; cleared metrics are gone, and are measured again.',
        'metrics: metrics: they are gone, and are measured again',
        'numbers go to the device when a program needs them, and are measured then',
      ),
      differs(
        'test_tracing_time_metrics',
        'Tracing is timed for every operation.',
        'metrics: LazyTracing has one sample for each time a step is described',
        'timing each operation would cost more than describing it',
      ),
      absent('test_eager_metrics', 'Eager operations have metrics of their own, and a sync then does nothing.', EAGER),
      same(
        'test_short_metrics_report_default_list',
        'The short report has compiles, executions, transfers and steps, not the rest; cached programs once there are some.',
        'metrics: has compiles, runs, transfers and steps, and cached programs once there are any',
      ),
      same(
        'test_short_metrics_report_default_list',
        'With XLA_METRICS_FILE, the file is written.',
        'metrics: XLA_METRICS_FILE has the report of each step',
      ),
      same(
        'test_short_metrics_report_custom_list',
        'The short report takes names of counters and of metrics, and its own list for the kind that is not named.',
        'metrics: has what is asked for; of a kind that is not named, the usual',
      ),
      absent('test_short_metrics_fallback_counter', 'Fallbacks to the host are in every short report.', FALLBACK),
      same(
        'test_metrics_report',
        'After a sync and a read, the usual counters and metrics have values, and cleared names have none.',
        'metrics: has what happened, by name; a name that was cleared is unknown',
      ),
      same(
        'test_metrics_report',
        'The same computation again is counted as a cached compile.',
        'metrics: has what happened, by name; a name that was cleared is unknown',
      ),
      absent(
        'test_metrics_report',
        'Numbers are shared by value between tensors, and misses are counted (DeviceDataCacheMiss).',
        'each tensor has its own value, so that a learning rate of 0 or 1 compiles nothing',
      ),
      differs(
        'test_metrics_report',
        'Tensors that are no more are counted (DestroyXlaTensor).',
        'metrics: buffers that are made and buffers that are freed: what is between them is alive',
        'JavaScript does not say when an object goes; the buffers behind them are counted',
      ),
      absent('test_metrics_report', 'Wrapping and unwrapping data is timed.', 'nothing is wrapped'),
      same(
        'test_execute_time_metric',
        'The time of an execution lasts until its results are there, and is most of the time one waits.',
        'metrics: ExecuteTime is the time of the device, not of starting: a long program has a multiple of a short one',
      ),
      absent(
        'test_pybind_increment_counter',
        'Any counter can be raised from outside, even one that does not exist.',
        'counters say what the runtime did; their names are a table',
      ),
      differs(
        'test_get_fallback_ops',
        'Operations that fell back to the host, reading a number among them, are listed until they are cleared.',
        'metrics: reading is none, and there are no others',
        FALLBACK,
      ),
    ],
  },
  {
    file: 'test/pjrt/test_metrics.py',
    rows: [
      same(
        'test_metrics_report',
        'The report is empty in a new process; after a tensor was made and read it has what the client measures.',
        'metrics: before anything ran the report is empty; a tensor made there and read has been compiled, run and brought here',
      ),
    ],
  },
  {
    file: 'test/test_operations.py',
    rows: [
      same(
        'test_print_execution',
        'Printing thrice runs one program, or none after a sync.',
        'metrics: printing runs one program, however often; none if the value is there',
      ),
      differs(
        'test_cached_addcdiv',
        'A number that was used before is not transferred again.',
        'metrics: a number in the code is part of the program: it is not transferred',
        'it is not transferred at all',
      ),
      same(
        'test_wait_device_ops',
        'After waiting for the device, executions are measured.',
        'metrics: waiting for the device: what it ran is measured then',
      ),
    ],
  },
  {
    file: 'test/test_dynamic_shapes_detector.py',
    rows: [
      same(
        'test_single',
        'One graph is allowed, and one is enough.',
        'graphs: one, and one is needed: no error, and the values are right',
      ),
      same(
        'test_many_graphs',
        'As many ways through a function as are allowed, in any order; known ones are free.',
        'graphs: four, and four ways are taken: ways that were taken before are free',
      ),
      differs(
        'test_graph_limit_exceeded_different_input_shape',
        'Another shape of an input is one graph too many: the error has the limit, the operation met and the one expected, with shapes.',
        'graphs: another shape is one too many: the error tells both',
        'it names the argument, its two shapes, the line, and what to do',
      ),
      same(
        'test_graph_limit_exceeded_common_sequence_mismatch',
        'Another operation: the error tells the operation met and the one expected.',
        'graphs: another operation from the start is one too many',
      ),
      differs(
        'test_graph_limit_exceeded_children_mismatch',
        'A third way after a common beginning: the error lists all operations that were expected there.',
        'graphs: a third way after a common beginning: the error tells where it leaves the nearest',
        'one is told, of the nearest program; `tx.explain()` has all',
      ),
      same(
        'test_graph_limit_exceeded_common_sequence_early_stop',
        'A function that ends where another operation was expected: the error says that it ended.',
        'graphs: an end before the others is one too many',
      ),
      differs(
        'test_graph_limit_exceeded_children_early_stop',
        'The same where two ways were expected: both are told.',
        'graphs: an end before the others is one too many',
        'one is told, of the nearest program',
      ),
    ],
  },
  {
    file: 'test/dynamo/test_dynamo_dynamic_shape.py',
    rows: [
      same(
        'test_dynamic_shape_multiple_batchs',
        'Each new batch size compiles once; one that was there before compiles nothing.',
        'graphs: a new shape compiles once; a shape that was there before does not',
      ),
      absent(
        'test_dynamic_shape_basic_with_mark_dynamic',
        'A dimension can be marked as dynamic.',
        'every shape is a program: pad to a few sizes',
      ),
    ],
  },
  {
    file: 'test/test_input_output_aliases.py',
    rows: [
      differs(
        'test_non_view',
        'Two tensors changed in place give up two inputs at the end of a step.',
        'aliasing: gives up every tensor that it changes in place: two of them, two inputs',
        'in `step` and `compile`; a sync gives nothing up',
      ),
      differs(
        'test_non_view',
        'A sync gives up the old values of all that was changed.',
        'aliasing: outside of steps nothing is given up',
        'outside of a step, what else is pending on an old value stays right',
      ),
      same(
        'test_aliasing_with_cloned',
        'A clone has memory of its own when the original is given up.',
        'aliasing: a clone has memory of its own when the original is given up',
      ),
      same(
        'test_aliasing_across_custom_inplace',
        'A tensor is given up again in the next step, after it was changed by its own value.',
        'aliasing: again and again: each program that changes a tensor takes its memory over',
      ),
      absent(
        'test_aliasing_across_custom_inplace',
        'The same after an optimization barrier in place.',
        'a barrier is put by `checkpoint` where it is needed, and is no operation of the user',
      ),
      same(
        'test_aliasing_across_sync',
        'A tensor is given up in each of two steps.',
        'aliasing: again and again: each program that changes a tensor takes its memory over',
      ),
      same(
        'test_aliasing_with_multiple_inplace_update',
        'A key cache changed ten times in a step is one input that is given up, and has the last values.',
        'aliasing: one tensor changed ten times is one input that is given up',
      ),
      same(
        'test_grad_accum',
        'Gradients added up over four steps: right, two graphs, one input given up.',
        'aliasing: gradients that pile up over four steps: two programs, and the second gives one input up',
      ),
      same(
        'test_separate_graphs',
        'Equal computations that differ in what they give up are two graphs.',
        'aliasing: programs that differ in what they give up are two: reading after a change does not lose the tensor',
      ),
      same(
        'test_xm_save_no_aliasing',
        'Saving a changed tensor gives nothing up: what is pending on its old value stays right.',
        'aliasing: writing the new value to a file leaves what is pending on the old one right',
      ),
      same(
        'test_device_data_cache_no_aliasing',
        'A number whose memory was given up can be made again, and is right.',
        'aliasing: two tensors made of the same number are two: giving one up leaves the other',
      ),
      absent(
        'test_user_config_donation_with_ltc_donation',
        'A buffer that the user marks is given up with the others.',
        USER_DONATION,
      ),
      absent(
        'test_user_config_donation_with_ltc_donation_graph_sync',
        'A marked buffer is given up in a partial sync, if that is turned on.',
        USER_DONATION,
      ),
      absent(
        'test_user_config_donation_with_ltc_donation_overlap',
        'A buffer that is marked and changed counts once.',
        USER_DONATION,
      ),
      absent('test_user_config_donation', 'Marking is counted (XlaSetBufferDonation).', USER_DONATION),
      absent(
        'test_user_config_donation_inplace_aliasing',
        'A marked buffer that is changed is given up in a partial sync.',
        USER_DONATION,
      ),
      absent('test_user_config_donation_no_op_sync', 'A sync that runs nothing keeps the mark.', USER_DONATION),
      absent('test_no_op_sync_keep_buffer_donation', 'A sync that runs nothing keeps the mark.', USER_DONATION),
      absent(
        'test_device_data_node_tracing_aliasing',
        'The data nodes of a graph are the tensors that were given.',
        'tensors have no identifiers of the graph',
      ),
    ],
  },
  {
    file: 'test/dynamo/test_dynamo_aliasing.py',
    rows: [
      same(
        'test_hash_with_buffer_donor',
        'What is given up is part of the hash.',
        'aliasing: programs that differ in what they give up are two: reading after a change does not lose the tensor',
      ),
      same(
        'test_manual_buffer_donation',
        'A function that changes its argument in place gives it up, and the values are right.',
        'aliasing: an argument that is changed in place is given up, whichever tensor is passed',
      ),
      differs(
        'test_manual_buffer_donation_for_non_inplce_op',
        'A marked argument that is only read is given up, and cannot be read any more.',
        'aliasing: an input that is only read is not given up',
        USER_DONATION,
      ),
      same(
        'test_manual_buffer_donation_for_inplce_op_repeat',
        'A hundred changes in place: one compile.',
        'aliasing: a hundred times: one compile, and as many live buffers as before',
      ),
      absent(
        'test_buffer_donation_on_non_data_tensor',
        'A tensor that is not computed yet cannot be marked.',
        USER_DONATION,
      ),
    ],
  },
  {
    file: 'test/test_persistent_cache.py',
    rows: [
      same(
        'test_persistent_cache (single_device)',
        'The first process misses, the second one hits and compiles nothing; values are equal.',
        './second-run: a second process compiles nothing, and gets the same numbers',
      ),
      differs(
        'test_persistent_cache_mp',
        'Processes with a folder each miss, then hit.',
        './second-run: two processes at once compile each program once',
        'they share one folder: one compiles, the others wait and load',
      ),
      same(
        'test_persistent_cache (spmd_replicated)',
        'The same under SPMD with replicated tensors.',
        './slow/spmd-models: a second process compiles nothing; another order of devices is another program',
      ),
      same(
        'test_persistent_cache (spmd_sharded)',
        'The same under SPMD with sharded tensors.',
        './slow/spmd-models: a second process compiles nothing; another order of devices is another program',
      ),
      same(
        'test_replicated_spmd_hash',
        'A program for several devices is another than for one.',
        './cache: on four devices is another than on one, and runs on four',
      ),
    ],
  },
  {
    file: 'test/test_compilation_cache_utils.py',
    rows: [
      same(
        'test_num_graph_hash',
        'The number of programs stays for other inputs of one shape, and grows by one for each new graph; with the disk cache, too.',
        'caches: another input is the same program, another shape is another (disk cache %s)',
      ),
      absent('test_num_graph_hash (use_dynamo)', 'The same through Dynamo.', DYNAMO),
    ],
  },
  {
    file: 'torch_xla/csrc/runtime/cache_test.cpp',
    rows: [
      same(
        'XlaUtilCacheTest',
        'The memory cache has the programs used last, and no others.',
        './programs: programs that were not used for longest make room, and are compiled again when they are needed',
      ),
      same(
        'XlaUtilPersistentCacheTest',
        'What was pushed out of memory is still found on disk.',
        'caches: what memory has no room for is loaded, not compiled again',
      ),
      same(
        'XlaUtilPersistentCacheTest',
        'A read-only cache serves what is there, and keeps its own programs in memory alone.',
        'caches: read only: what is there is used, and nothing is added',
      ),
      same(
        'XlaUtilPersistentCacheTest',
        'A read-only cache removes nothing.',
        './cache: reading only: hits, and not a byte is written',
      ),
      same(
        'XlaUtilPersistentCacheTest',
        'Clearing a writable cache removes all from the disk.',
        './cache: prunes by age and size, and clears',
      ),
    ],
  },
  {
    file: 'torch_xla/csrc/runtime/env_hash_test.cpp',
    rows: [
      same(
        'CompilationEnvHashTest',
        'Flags in XLA_FLAGS change the key; their order and flags that dump do not.',
        './cache: other flags are another program, their order and dumps are not',
      ),
      same(
        'CompilationEnvHashTest',
        'The same for LIBTPU_INIT_ARGS; TPU_MEGACORE changes the key, too.',
        "caches: LIBTPU_INIT_ARGS and TPU_MEGACORE are part of the key; flags' order and dumps are not",
      ),
    ],
  },
  {
    file: 'test/test_user_computation_debug_cache.py',
    rows: [
      same(
        'test_user_computation_debug_cache',
        'Equal computations from different lines are one program.',
        'caches: the same computation at other lines, with the lines in the graph or without, is one program',
      ),
      same(
        'test_user_computation_debug_cache',
        'The same where the lines are written into the program.',
        './dump: are no part of a program: with them it is the same as without',
      ),
    ],
  },
  {
    file: 'test/scan/test_scan_debug.py',
    rows: [
      same(
        'test_scan_no_recompile_with_debug_annotations',
        'Loops with equal bodies from different lines are one program, gradients included.',
        'caches: loops whose bodies compute the same are one program, with their gradients',
      ),
    ],
  },
  {
    file: 'test/test_env_var_mapper.py',
    rows: [
      same(
        'test_xla_ir_debug_',
        'Frames are kept, and shown with tensors, only if they are asked for.',
        './dump: XLA_IR_DEBUG=1 captures the whole stack, and listings say where',
      ),
    ],
  },
  {
    file: 'test/test_hlo_metadata.py',
    rows: [
      same(
        'test_metadata',
        "The program has the user's lines beside its operations.",
        './dump: XLA_HLO_DEBUG=1 puts them into the program, and XLA keeps them',
      ),
    ],
  },
  {
    file: 'test/dynamo/test_dynamo_graph_dump.py',
    rows: [
      same(
        'test_dump_graph_with_dynamo_execution',
        'Each run of a program adds a block with its hash.',
        './dump: has a block for each run, the first before it is compiled',
      ),
    ],
  },
  {
    file: 'test/test_xla_graph_execution.py',
    rows: [
      same(
        'test_graph_execution_allowed',
        'Outside of compiled functions, reading a value runs what it needs.',
        'graphs: outside of one, reading runs what it needs',
      ),
      differs(
        'test_graph_execution_disallowed_with_error',
        'Where execution is not allowed, reading a value is an error.',
        'graphs: reading a value is an error that says what to do (fullGraph: %s)',
        'in every step and compiled function; the error says what to write instead',
      ),
    ],
  },
  {
    file: 'test/eager/test_eager_with_xla_compile.py',
    rows: [
      same(
        'test_eager_with_compile_basic',
        'A compiled function, however it was wrapped, is one execution and gives what the plain one gives.',
        'graphs: each is one execution, whatever was computed one by one before',
      ),
      same(
        'test_eager_execute_compiled_multiple_times',
        'A compiled function of its own result: two executions, right values.',
        'graphs: the result of one as the argument of another: two executions, one program',
      ),
      differs(
        'test_eager_with_compile_graph_break',
        'With full_graph, deciding by a value inside is an error.',
        'graphs: reading a value is an error that says what to do (fullGraph: %s)',
        'without it, too: a program is never cut in two',
      ),
    ],
  },
  {
    file: 'test/eager/test_eager.py',
    rows: [
      absent('test_eager_basic', 'Each operation is compiled and run when it is called.', EAGER),
      same(
        'test_eager_recompile',
        'The same operation again compiles nothing.',
        'graphs: the same operation again compiles nothing',
      ),
      absent('test_eager_in_place', 'A barrier in place is one execution.', EAGER),
      same(
        'test_eager_random_seed',
        'Random numbers differ from draw to draw, without a new compile.',
        'graphs: random numbers: others each time by one program, the same again from the same state',
      ),
      same(
        'test_eager_set_random_seed',
        'A draw changes the state; the same state gives the same numbers.',
        'graphs: random numbers: others each time by one program, the same again from the same state',
      ),
      same(
        'test_svd_execute_once',
        'The results of one operation come from one execution, and the operation is counted.',
        'graphs: an operation with several results runs once for all of them',
      ),
      same(
        'test_batch_norm_execute_once',
        'Batch norm with its statistics is one execution.',
        'graphs: batch norm runs once, its statistics with it',
      ),
    ],
  },
  {
    file: 'test/test_async_closures.py',
    rows: [
      differs(
        'test_synchronous',
        'A closure has run when the sync that ends its step returns.',
        'steps: waiting for the step waits for them',
        'if the sync waits: closures run when the results are there',
      ),
      same(
        'test_asynchronous',
        'A closure can run while the loop continues.',
        'steps: without waiting, the loop continues while they run',
      ),
      same(
        'test_synchronous_exception',
        'What a closure throws is thrown by the sync.',
        'steps: what one throws is thrown where it is awaited',
      ),
      same(
        'test_asynchronous_exception',
        'What a closure throws later is thrown by the next sync, and closures given since do not run in it.',
        'steps: else by the next %s, which does nothing and runs no closure',
      ),
    ],
  },
  {
    file: 'test/test_devices.py',
    rows: [
      differs(
        'test_device',
        'A device is found by its number; without one it is the first.',
        './xm: xlaDevice is xla:0, whatever is behind it',
        'a process computes on one device: another number is an error',
      ),
      same(
        'test_devices',
        'All devices, numbered from 0.',
        'steps: the CPU is as many as one asks for, numbered from 0',
      ),
      same(
        'test_real_devices',
        'Devices have the name of their kind and a number.',
        'steps: the CPU is as many as one asks for, numbered from 0',
      ),
      same(
        'test_device_count',
        'The CPU can be told how many devices it is.',
        'steps: the CPU is as many as one asks for, numbered from 0',
      ),
      same('test_sync', 'A sync counts as one step.', 'steps: a sync is one'),
      differs(
        'test_step',
        'A step counts twice: what was pending, and itself.',
        'steps: so is a step, and a call of a compiled function, with what was pending before it',
        'it counts once',
      ),
      differs(
        'test_step_exception',
        'A step that throws lets the error through, and ends all the same.',
        'steps: a step that throws is none: its error comes through, and all is as it was',
        'nothing of it is run or counted, and all is as it was before',
      ),
      same(
        'test_trivial_model',
        'A loop over batches in steps trains.',
        'steps: a small training loop: one program for whole batches, one for the short one at the end',
      ),
    ],
  },
  {
    file: 'test/test_gradient_accumulation.py',
    rows: [
      same(
        'test_basic',
        'A loop inside one program gives the loss and the gradients of a plain loop.',
        './accumulate: is the gradient of the whole batch, and of a loop that calls backward',
      ),
      same(
        'test_with_carried_tensors',
        'Random numbers differ from pass to pass.',
        './accumulate: with dropout: each micro-batch draws anew, and the generator continues as after the loop',
      ),
      absent(
        'test_with_carried_tensors',
        'Tensors are carried from pass to pass.',
        '`accumulate` gives the loss; `scan` carries',
      ),
      same(
        'test_error_empty_iterable_tensors',
        'Nothing to go over is an error.',
        'steps: accumulate over nothing is an error',
      ),
      same(
        'test_error_mutated_input_tensors',
        'Changing a tensor in place in the loop is an error.',
        'steps: a tensor that is changed in place inside accumulate is an error',
      ),
    ],
  },
  {
    file: 'test/spmd/test_xla_sharding.py',
    rows: [
      same(
        'test_execute_replicated_metrics',
        'A run on several devices is measured as one.',
        './spmd/split-programs: a run on eight devices is one sample of ExecuteReplicatedTime',
      ),
      same(
        'test_sharded_tensor_aliasing',
        'A sharded tensor that is changed is given up.',
        './spmd/split-programs: a step donates all parts; what someone still sees is copied',
      ),
    ],
  },
];
