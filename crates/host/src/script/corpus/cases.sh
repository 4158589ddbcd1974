# SPDX-License-Identifier: Apache-2.0 OR MIT
# names: a1 b1 c1 d1
case "$(a1)" in
  (x|y) b1 ;;
  z*) c1 ;&
  "a b") ;;
  *) d1
esac
case x in esac
