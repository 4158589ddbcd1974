// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads pictures of a screen from the files of an X server.

use std::collections::BTreeSet;
use std::ops::Range;

/// How far each of red, green and blue may be off: films and colour management change them a little.
const TOLERANCE: u8 = 24;

/// A rectangle on a screen, or beyond it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) columns: Range<i64>,
    pub(crate) rows: Range<i64>,
}

impl Area {
    /// Everything.
    pub(crate) const ALL: Self = Self { columns: 0..i64::MAX, rows: 0..i64::MAX };
}

/// A picture of a part of a screen.
#[derive(Debug)]
pub(crate) struct Picture {
    points: Vec<[u8; 3]>,
}

impl Picture {
    /// Reads an area of a screen of 24 bits (`/usr/include/X11/XWDFile.h`); nothing if it is something else.
    pub(crate) fn read(file: &[u8], area: &Area) -> Option<Self> {
        // All numbers of the header are big-endian, whatever the server is.
        let number = |nth: usize| {
            let bytes = file.get(nth * 4..nth * 4 + 4)?;
            usize::try_from(u32::from_be_bytes(bytes.try_into().ok()?)).ok()
        };
        let (header, colours) = (number(0)?, number(19)?);
        let (width, height, line) = (number(4)?, number(5)?, number(12)?);
        let little_endian = number(7)? == 0;
        if number(1)? != 7 || number(11)? != 32 || !little_endian || line < width * 4 {
            return None;
        }
        let rows = file.get(header + colours * 12..)?;
        if rows.len() < line * height {
            return None;
        }
        let mut points = Vec::new();
        for (row, _) in rows.chunks(line).take(height).zip(0_i64..).filter(|(_, at)| area.rows.contains(at)) {
            let row = row[..width * 4].chunks_exact(4).zip(0_i64..);
            let inside = row.filter(|(_, at)| area.columns.contains(at));
            points.extend(inside.map(|(point, _)| [point[2], point[1], point[0]]));
        }
        Some(Self { points })
    }

    /// How many points have this colour, about.
    pub(crate) fn points_of(&self, colour: [u8; 3]) -> usize {
        let like =
            |point: &&[u8; 3]| point.iter().zip(colour).all(|(one, other)| one.abs_diff(other) <= TOLERANCE);
        self.points.iter().filter(like).count()
    }

    /// How many colours there are.
    pub(crate) fn colours(&self) -> usize {
        self.points.iter().collect::<BTreeSet<_>>().len()
    }
}

#[test]
fn a_picture_of_three_points_is_read() {
    let mut numbers = [0_u32; 25];
    numbers[0] = 100;
    numbers[1] = 7;
    (numbers[4], numbers[5]) = (3, 1);
    (numbers[11], numbers[12], numbers[19]) = (32, 16, 1);
    let mut file: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    file.extend([0; 12]);
    file.extend([20, 60, 200, 0, 24, 63, 190, 0, 255, 255, 255, 0]);
    assert!(Picture::read(&file, &Area::ALL).is_none(), "its line is longer");
    file.extend([0; 4]);
    let picture = Picture::read(&file, &Area::ALL).unwrap();
    assert_eq!(picture.points_of([200, 60, 20]), 2);
    assert_eq!(picture.colours(), 3);
    let part = Picture::read(&file, &Area { columns: -4..1, rows: 0..1 }).unwrap();
    assert_eq!(part.colours(), 1);
}
