//! The same bytes for the same seed; profiles match their description; invalid options are refused.

use super::profile::PROFILES;
use super::*;
use crate::stream;

/// FNV-1a over 64 bits (Fowler, Noll and Vo), short enough to be obviously correct.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn small(profile: &Profile) -> GenerateOptions {
    GenerateOptions { auctions: 2_000, ..GenerateOptions::new(profile.clone()) }
}

fn bytes(options: &GenerateOptions) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(options, &mut bytes).expect("in range");
    bytes
}

#[test]
fn the_same_seed_makes_the_same_bytes_everywhere() {
    let hashes: Vec<(&str, u64)> =
        PROFILES.iter().map(|profile| (profile.name, hash(&bytes(&small(profile))))).collect();
    let want: &[(&str, u64)] = &[
        ("flat", 0xf15f_e524_201a_c202),
        ("diurnal", 0xfcd9_6369_2273_3ea5),
        ("bursty", 0x35d1_ed20_8aaf_9374),
        ("spikes", 0x7c6f_40c0_0b55_0b8c),
        ("drift-up", 0x1b19_1dd9_867b_fe00),
        ("drift-down", 0x48b4_b121_c662_4af7),
        ("shock", 0xa40f_9dbd_4d61_7788),
        ("correlated", 0x5746_9c17_0fd4_c578),
        ("independent", 0xc0b2_ff2d_6893_af04),
        ("heavy-tail", 0x93e9_7684_758f_6be0),
        ("uniform-value", 0x38c8_d5cc_9216_8f55),
        ("fixed-value", 0x31b7_8381_36c1_89fb),
        ("retargeting", 0x4cdb_fe97_eb45_77da),
        ("night", 0x00ca_1be7_a2a4_ae06),
        ("minutely", 0x28ee_1648_6000_7ec1),
        ("hourly", 0x113b_19dd_f4ef_6690),
        ("market", 0xcaa5_bd53_fe8b_a9de),
        ("dear-tail", 0xcc25_e5d6_29b6_69a5),
        ("few-dear", 0xd74a_452d_414d_8fff),
        ("night-dear", 0x750e_aea3_5d17_44f5),
    ];
    assert_eq!(hashes, want, "{hashes:#x?}");
}

#[test]
fn another_seed_makes_another_stream() {
    let options = small(&PROFILES[0]);
    let other = GenerateOptions { seed: 2, ..options.clone() };
    assert_ne!(bytes(&options), bytes(&other));
    assert_eq!(bytes(&options), bytes(&options));
}

#[test]
fn what_is_written_is_a_stream() {
    for profile in PROFILES {
        let options = small(profile);
        let read = stream::read(&bytes(&options)[..], stream::StreamOptions::default())
            .unwrap_or_else(|error| panic!("{}: {error}", profile.name));
        let made: Vec<_> = auctions(&options).expect("in range").collect();
        assert_eq!(read, made, "{}", profile.name);
        assert_eq!(read.len(), 2_000);
        let flight = START_MS..START_MS + DAY_MS;
        assert!(read.iter().all(|auction| flight.contains(&auction.time_ms)));
    }
}

#[test]
fn profiles_have_names_and_are_at_least_nine() {
    assert!(PROFILES.len() >= 9);
    for profile in PROFILES {
        assert_eq!(Profile::named(profile.name), Some(profile));
        let same = PROFILES.iter().filter(|other| other.name == profile.name);
        assert_eq!(same.count(), 1, "{}", profile.name);
        assert!(!profile.about.is_empty());
    }
    assert_eq!(Profile::named("nothing"), None);
    assert_eq!(Profile::parse("flat").as_ref(), Ok(&PROFILES[0]));
    let error = Profile::parse("steady\n").expect_err("there is none").to_string();
    assert!(
        error.starts_with("there is no profile `steady\\n`: choose flat, diurnal, bursty, "),
        "{error}"
    );
}

#[test]
fn prices_move_within_minutes_or_from_hour_to_hour() {
    // Change of the mean logarithm of prices between parts of the day.
    let moves = |profile: &str, parts: u64| {
        let auctions = made(profile);
        let share = |at: u64| crate::curve::ratio(at, parts);
        let mean = |at| mean_log(&auctions, (share(at), share(at + 1)), |it| it.market_price);
        let means: Vec<f64> = (parts / 2..parts - parts / 8).map(mean).collect();
        let squares = means.windows(2).map(|pair| (pair[1] - pair[0]) * (pair[1] - pair[0]));
        (squares.sum::<f64>() / whole(means.len() as u64 - 1)).sqrt()
    };
    assert!(moves("diurnal", 24) < 0.05 && moves("diurnal", 288) < 0.15);
    assert!((0.15..0.6).contains(&moves("hourly", 24)), "{}", moves("hourly", 24));
    assert!((0.2..0.5).contains(&moves("minutely", 288)), "{}", moves("minutely", 288));
}

fn made(profile: &str) -> Vec<StreamAuction> {
    let profile = Profile::named(profile).expect("it exists").clone();
    let options = GenerateOptions { auctions: 40_000, ..GenerateOptions::new(profile) };
    auctions(&options).expect("in range").collect()
}

/// Number of auctions between two shares of the day.
fn count(auctions: &[StreamAuction], from: f64, to: f64) -> f64 {
    let since = |auction: &StreamAuction| crate::curve::ratio(auction.time_ms - START_MS, DAY_MS);
    let within = auctions.iter().filter(|auction| (from..to).contains(&since(auction)));
    f64::from(u32::try_from(within.count()).expect("a few"))
}

/// Mean logarithm of `of` over the auctions between two shares of the day.
fn mean_log(
    auctions: &[StreamAuction],
    (from, to): (f64, f64),
    of: impl Fn(&StreamAuction) -> Cpm,
) -> f64 {
    let since = |auction: &&StreamAuction| crate::curve::ratio(auction.time_ms - START_MS, DAY_MS);
    let within = auctions.iter().filter(|auction| (from..to).contains(&since(auction)));
    let sum: f64 = within.map(|auction| libm::log(whole(of(auction).micros()) / 1e6)).sum();
    sum / count(auctions, from, to)
}

#[track_caller]
fn near(got: f64, want: f64, by: f64) {
    assert!((got - want).abs() <= by, "{got} is not within {by} of {want}");
}

#[test]
fn traffic_follows_its_profile() {
    let flat = made("flat");
    near(count(&flat, 0.0, 0.25), 10_000.0, 400.0);
    near(count(&flat, 0.75, 1.0), 10_000.0, 400.0);
    // Around the peak at 19 h, and half a day later: 1 + 0.7 and 1 - 0.7 of the mean.
    let diurnal = made("diurnal");
    near(count(&diurnal, 18.5 / 24.0, 19.5 / 24.0), 1.7 * 40_000.0 / 24.0, 200.0);
    near(count(&diurnal, 6.5 / 24.0, 7.5 / 24.0), 0.3 * 40_000.0 / 24.0, 100.0);
    // About twelve hundredths of the day have four times the traffic: some minutes stand out.
    let most = |auctions: &[StreamAuction]| {
        let minutes = (0..1_440).map(f64::from);
        minutes.map(|at| count(auctions, at / 1_440.0, (at + 1.0) / 1_440.0)).fold(0.0, f64::max)
    };
    assert!(most(&made("bursty")) > 2.0 * most(&diurnal));
}

#[test]
fn weekends_have_their_share() {
    let profile = Profile { weekend: 0.5, ..Profile::named("flat").expect("it exists").clone() };
    let week = GenerateOptions {
        auctions: 30_000,
        duration_ms: 7 * DAY_MS,
        ..GenerateOptions::new(profile)
    };
    let auctions: Vec<_> = auctions(&week).expect("in range").collect();
    // It begins on a Monday: six units of traffic in total; the last two days have half a unit
    // each.
    let of_days = |from: u64, to: u64| {
        let days = START_MS + from * DAY_MS..START_MS + to * DAY_MS;
        let within = auctions.iter().filter(|auction| days.contains(&auction.time_ms));
        f64::from(u32::try_from(within.count()).expect("a few"))
    };
    near(of_days(0, 5), 25_000.0, 500.0);
    near(of_days(5, 7), 5_000.0, 300.0);
}

#[test]
fn prices_drift_and_jump() {
    let price = |auction: &StreamAuction| auction.market_price;
    let flat = made("diurnal");
    near(mean_log(&flat, (0.0, 1.0), price), 0.0, 0.02);
    for (profile, factor) in [("drift-up", 1.5), ("drift-down", 2.0 / 3.0)] {
        let drift = made(profile);
        // The middles of the first and the last fifth are four fifths of the way apart.
        let (first, last) =
            (mean_log(&drift, (0.0, 0.2), price), mean_log(&drift, (0.8, 1.0), price));
        near(last - first, 0.8 * libm::log(factor), 0.05);
    }
    let shock = made("shock");
    let (before, after) =
        (mean_log(&shock, (0.0, 0.6), price), mean_log(&shock, (0.6, 1.0), price));
    near(after - before, libm::log(1.5), 0.03);
}

#[test]
fn values_are_spread_as_told() {
    let sorted = |profile: &str| {
        let mut values: Vec<f64> =
            made(profile).iter().map(|auction| whole(auction.value.micros()) / 1e6).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    // Quantiles of 10, 50, 90 and 99 %.
    let check = |profile: &str, want: [f64; 4]| {
        let values = sorted(profile);
        for (at, want) in [4_000, 20_000, 36_000, 39_600].into_iter().zip(want) {
            near(values[at] / want, 1.0, 0.07);
        }
    };
    check("diurnal", [2.0 * 0.3587, 2.0, 2.0 * 2.788, 2.0 * 6.43]);
    check("uniform-value", [0.4, 2.0, 3.6, 3.96]);
    check("fixed-value", [2.0; 4]);
    // 2 (2 (1 - q))^(-1/2.5).
    check("heavy-tail", [1.5809, 2.0, 3.8073, 9.5635]);
    // Nineteen in twenty about 2, one about 20.
    check("retargeting", [1.463, 2.033, 3.0, 20.0 * 1.234]);
}

#[test]
fn values_go_with_prices_as_told() {
    let correlation = |profile: &str| {
        let auctions = made(profile);
        let logs: Vec<(f64, f64)> = auctions
            .iter()
            .map(|it| {
                (libm::log(whole(it.market_price.micros())), libm::log(whole(it.value.micros())))
            })
            .collect();
        let count = count(&auctions, 0.0, 1.0);
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / count;
        let (price, value) = (mean(&|it| it.0), mean(&|it| it.1));
        let both = mean(&|it| (it.0 - price) * (it.1 - value));
        let (of_price, of_value) = (
            mean(&|it| (it.0 - price) * (it.0 - price)),
            mean(&|it| (it.1 - value) * (it.1 - value)),
        );
        both / (of_price * of_value).sqrt()
    };
    near(correlation("diurnal"), 0.3, 0.02);
    near(correlation("correlated"), 0.8, 0.02);
    near(correlation("independent"), 0.0, 0.02);
}

#[track_caller]
fn refused(options: &GenerateOptions, want: &str) {
    match auctions(options) {
        Ok(_) => panic!("accepted: {want}"),
        Err(error) => assert_eq!(error.to_string(), want),
    }
    let error = write(options, Vec::new()).expect_err("refused too");
    assert_eq!((error.kind(), error.to_string()), (io::ErrorKind::InvalidInput, want.to_owned()));
}

#[test]
fn options_out_of_range_are_refused() {
    let options = small(&PROFILES[0]);
    for auctions in [0, AUCTIONS_MAX + 1] {
        refused(
            &GenerateOptions { auctions, ..options.clone() },
            &format!("{auctions} auctions cannot be: ask for 1 to 1000000000"),
        );
    }
    for duration_ms in [0, DURATION_MS_MAX + 1] {
        refused(
            &GenerateOptions { duration_ms, ..options.clone() },
            &format!(
                "a stream of {duration_ms} ms cannot be: it goes on for 1 to 31622400000 ms, 366 days"
            ),
        );
    }
    for start_ms in [TIME_MS_MAX - DAY_MS + 1, u64::MAX] {
        refused(
            &GenerateOptions { start_ms, ..options.clone() },
            &format!(
                "a stream from {start_ms} ms on would end after the year 9999: begin it earlier"
            ),
        );
    }
}

#[test]
fn every_field_of_a_profile_has_its_range() {
    let flat = Profile::named("flat").expect("it exists");
    let check = |change: &dyn Fn(&mut Profile), want: &str| {
        let mut profile = flat.clone();
        change(&mut profile);
        refused(&small(&profile), &format!("the profile's {want}"));
    };
    check(&|it| it.day_depth = 1.1, "day_depth cannot be 1.1: it is 0 to 1");
    check(&|it| it.peak_hour = -1.0, "peak_hour cannot be -1: it is 0 to 24");
    check(&|it| it.weekend = 0.0, "weekend cannot be 0: it is above 0, at most 10");
    check(&|it| it.bursts = 1_001, "bursts cannot be 1001: it is 0 to 1000");
    check(&|it| it.burst_length = 0.6, "burst_length cannot be 0.6: it is 0 to 0.5");
    check(&|it| it.burst_height = 0.5, "burst_height cannot be 0.5: it is 1 to 1000");
    check(&|it| it.price_median = 0.0, "price_median cannot be 0: it is above 0, at most 100000");
    check(&|it| it.price_sigma = 3.5, "price_sigma cannot be 3.5: it is 0 to 3");
    check(&|it| it.drift = 0.0, "drift cannot be 0: it is 0.01 to 100");
    check(&|it| it.shock = 101.0, "shock cannot be 101: it is 0.01 to 100");
    check(&|it| it.shock_at = 2.0, "shock_at cannot be 2: it is 0 to 1");
    check(
        &|it| it.value_median = f64::NAN,
        "value_median cannot be NaN: it is above 0, at most 100000",
    );
    check(&|it| it.correlation = f64::INFINITY, "correlation cannot be inf: it is -1 to 1");
    let values = |values| move |it: &mut Profile| it.values = values;
    check(
        &values(Values::LogNormal { sigma: 0.0 }),
        "values cannot be 0: it is above 0, at most 3",
    );
    check(&values(Values::Pareto { shape: 1.0 }), "values cannot be 1: it is above 1, at most 20");
    check(&values(Values::Rare { share: 1.5, times: 2.0 }), "values cannot be 1.5: it is 0 to 1");
    check(
        &values(Values::Rare { share: 0.5, times: 0.5 }),
        "values (times) cannot be 0.5: it is 1 to 1000",
    );
}

#[test]
fn the_shortest_stream_and_the_wildest_profile_are_made() {
    let wild = Profile {
        day_depth: 1.0,
        bursts: 1_000,
        burst_length: 0.5,
        burst_height: 1_000.0,
        price_median: 100_000.0,
        price_sigma: 3.0,
        drift: 100.0,
        values: Values::Pareto { shape: 1.000_001 },
        ..PROFILES[0].clone()
    };
    for duration_ms in [1, 999, DAY_MS] {
        let options =
            GenerateOptions { auctions: 500, duration_ms, ..GenerateOptions::new(wild.clone()) };
        let made: Vec<_> = auctions(&options).expect("in range").collect();
        assert_eq!(made.len(), 500);
        assert!(made.is_sorted_by_key(|auction| auction.time_ms));
        assert!(made.iter().all(|auction| auction.time_ms < START_MS + duration_ms));
        assert!(made.iter().all(|auction| auction.value > Cpm::ZERO));
    }
}
