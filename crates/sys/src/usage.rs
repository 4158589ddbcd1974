// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting for a child with its resource usage.
