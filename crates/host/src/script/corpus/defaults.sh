# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1 c1
${X:-a1} y
${Y:=b1}
z=${Z:+$(c1)}
