cd photos
for old in "IMG "????-??-??" "*.txt; do
  name=${old#IMG }; date=${name%% *}; rest=${name#* }
  year=${date%%-*}; month=${date#*-}; day=${month#*-}; month=${month%-*}
  mkdir -p "$year/$month"
  mv "$old" "$year/$month/$day-${rest// /_}"
done
