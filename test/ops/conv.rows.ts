import { Table } from './row.js';

export const table = new Table('conv');
