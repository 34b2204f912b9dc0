-- Postings are kept in another form: what is there is read from DATEV once more.
DELETE FROM datev_postings;
DELETE FROM datev_jobs;
