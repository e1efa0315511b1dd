-- Invented people in three tables as the OMOP common data model (5.4) has them, with the columns
-- that readmission.sql reads. Whoever is old and comes with many conditions comes back more often.
BEGIN;
SELECT setseed(0.5);
CREATE TABLE person (
  person_id integer PRIMARY KEY, gender_concept_id integer NOT NULL, year_of_birth integer NOT NULL
);
CREATE TABLE visit_occurrence (
  visit_occurrence_id integer PRIMARY KEY, person_id integer NOT NULL REFERENCES person,
  visit_concept_id integer NOT NULL, visit_start_date date NOT NULL, visit_end_date date NOT NULL
);
CREATE TABLE condition_occurrence (
  condition_occurrence_id integer PRIMARY KEY, person_id integer NOT NULL REFERENCES person,
  condition_concept_id integer NOT NULL, condition_start_date date NOT NULL
);

-- 8507 is male, 8532 female.
INSERT INTO person
SELECT i, CASE WHEN random() < 0.5 THEN 8507 ELSE 8532 END, 1925 + floor(75 * random())
FROM generate_series(1, 5000) AS i;

-- Up to six conditions in the year before the first stay.
INSERT INTO condition_occurrence
SELECT 10 * person_id + n, person_id, 200000 + floor(500 * random()),
  date '2023-01-01' - 1 - floor(364 * random())::integer
FROM person, generate_series(1, 6) AS n
WHERE random() < 0.1 + 0.7 * (2000 - year_of_birth) / 75.0;

-- 9201 is a stay in hospital. The first begins in 2023.
INSERT INTO visit_occurrence
SELECT 2 * person_id, person_id, 9201, day, day + 1 + floor(20 * random() ^ 2)::integer
FROM (SELECT person_id, date '2023-01-01' + floor(300 * random())::integer AS day FROM person) AS first;

INSERT INTO visit_occurrence
SELECT 2 * person_id + 1, person_id, 9201, visit_end_date + 10, visit_end_date + 13
FROM visit_occurrence JOIN person USING (person_id) LEFT JOIN (
  SELECT person_id, count(*) AS conditions FROM condition_occurrence GROUP BY person_id
) AS had USING (person_id)
WHERE random() < CASE
  WHEN coalesce(conditions, 0) >= 3 AND year_of_birth < 1960 THEN 0.8 ELSE 0.1
END;
COMMIT;
