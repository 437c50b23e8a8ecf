// What the commands that talk to a Ray cluster have in common.
import { Option } from 'commander';
import { RayCluster, rayAddress } from '../ray/index.js';

export const addressOption = (): Option =>
  new Option('--address <url>', "of the cluster's dashboard, as http://host:8265; RAY_ADDRESS unless told");

export const clusterAt = (address: string | undefined): RayCluster => new RayCluster(rayAddress(address));
