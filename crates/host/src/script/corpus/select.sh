# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1
select x in one two; do a1; break; done
