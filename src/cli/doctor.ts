// `tsxla doctor`: checks whether tsxla works on this machine, and what to do if not.
import { Command } from 'commander';
import pc from 'picocolors';
import { bytes, columns, plural, seconds } from '../base/format.js';
import { type DeviceReport, diagnose, type Report } from '../observe/doctor.js';
import { progress } from './progress.js';

export function doctorCommand(): Command {
  return new Command('doctor').option('--json', 'print the report as JSON').action(async (flags: { json?: true }) => {
    const report = await diagnose({ onProgress: progress('fetching the CPU plugin') });
    console.log(flags.json ? JSON.stringify(report, null, 2) : show(report));
    if (!report.ok) process.exitCode = 1;
  });
}

const MARK = { ok: pc.green('ok     '), absent: pc.dim('absent '), failed: pc.red('FAILED ') };

function show(r: Report): string {
  const { device, why } = r.defaultDevice;
  return [
    columns(
      [
        ['tsxla', `${r.tsxla}, ${r.runtime}, ${r.platform}`],
        ['machine', `${plural(r.cores, 'core')}, ${bytes(r.memory.free)} of ${bytes(r.memory.total)} memory free`],
        ['default', `${device} (${why})`],
      ],
      '',
    ),
    '',
    ...r.devices.map(showDevice),
    '',
    ...r.caches.map(
      (c) => `cache   ${c.path}: ${bytes(c.bytes)}${c.free === undefined ? '' : `, ${bytes(c.free)} free on its disk`}`,
    ),
    `programs ${r.programs.path}: ${bytes(r.programs.bytes)} of at most ${bytes(r.programs.limit)}`,
    ...(r.programs.refused ? [pc.red(`         not used: ${r.programs.refused}`)] : []),
    '',
    r.ok
      ? pc.green(`All is well: ${device} works.`)
      : pc.red(`${device}, the default device, does not work. ${r.advice ?? ''}`),
  ].join('\n');
}

function showDevice(d: DeviceReport): string {
  const lines = [`${MARK[d.state]}${pc.bold(d.device.padEnd(5))} ${d.summary}`];
  if (d.plugin) {
    const { path, source, api } = d.plugin;
    const name = d.plugin.package ? `${d.plugin.package} ${d.plugin.version}` : 'unknown version';
    lines.push(`         ${name}, PJRT C API ${api ?? '?'}, from ${source}: ${path}`);
  }
  for (const c of d.chips) {
    const memory = c.memory ? `, ${bytes(c.memory.bytesInUse)} of ${bytes(c.memory.bytesLimit ?? 0)} in use` : '';
    lines.push(
      `         ${c.name}${memory}: matmul ${c.size} ${c.correct ? 'right' : pc.red('WRONG')} in ${seconds(c.seconds)}`,
    );
  }
  if (d.advice) lines.push(`         ${d.advice.replaceAll('\n', '\n         ')}`);
  return lines.join('\n');
}
